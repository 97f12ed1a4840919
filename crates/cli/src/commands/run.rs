//! `skillbox run`.

mod directory;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use client::{Client, Execution, ExecutionStatus, LogLine, Reply, RunRequest};

use super::exec;
use super::follow::{FollowEnd, follow};
use super::inputs::ScriptInputs;
use crate::args::Global;
use crate::local_run::{LocalArgs, SkillLocation};
use crate::output::{Output, note, write_untrusted_chunk, write_untrusted_note};
use crate::{connection, input, progress, terminal, text};

#[derive(Args)]
pub(crate) struct RunArgs {
    /// A skill's name on the server, or name@version; or a directory, which runs on this machine
    /// without a server.
    #[arg(value_name = "SKILL|DIR")]
    skill: String,
    /// File of the skill to run instead of its entrypoint.
    #[arg(value_name = "SCRIPT", conflicts_with = "script")]
    path: Option<String>,
    #[command(flatten)]
    inputs: ScriptInputs,
    /// Version to run. By default the newest.
    #[arg(long)]
    version: Option<String>,
    /// The same as SCRIPT.
    #[arg(long, value_name = "PATH")]
    script: Option<String>,
    /// Write the files that the run leaves into this directory.
    #[arg(long, value_name = "DIR", conflicts_with = "background")]
    download: Option<PathBuf>,
    /// Print the execution's id and do not wait for its result.
    #[arg(long = "async", conflicts_with = "follow")]
    background: bool,
    /// Print the log live, then the result.
    #[arg(long, short = 'f')]
    follow: bool,
    /// URL to call, with a signature, when the execution has ended.
    #[arg(long, value_name = "URL", requires = "background")]
    webhook: Option<String>,
    /// Idempotency key. A repeated call with the same key returns the same execution.
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    #[command(flatten)]
    local: LocalArgs,
    /// Arguments for the script.
    #[arg(last = true)]
    pub args: Vec<String>,
}

impl RunArgs {
    fn script(&self) -> Option<String> {
        self.path.clone().or_else(|| self.script.clone())
    }

    /// The first flag given that requires a server, for the error when a directory is run.
    fn first_server_flag(&self) -> Option<&'static str> {
        let flags = [
            (self.background, "--async"),
            (self.follow, "--follow"),
            (self.version.is_some(), "--version"),
            (self.webhook.is_some(), "--webhook"),
            (self.idempotency_key.is_some(), "--idempotency-key"),
        ];
        flags.into_iter().find_map(|(given, flag)| given.then_some(flag))
    }
}

pub(crate) async fn run(global: &Global, args: RunArgs, output: Output) -> Result<ExitCode> {
    if let SkillLocation::Directory(path) =
        SkillLocation::parse(&args.skill, global.is_server_configured())
    {
        if let Some(flag) = args.first_server_flag() {
            bail!("{flag} needs a server, but {} is a directory and runs without one", args.skill);
        }
        return directory::run(&path, &args, output).await;
    }
    if let Some(flag) = args.local.first_given_flag() {
        bail!("{flag} works only for a directory; use ./{} if you mean a directory", args.skill);
    }
    let client = connection::open(global)?;
    let request = request(&args)?;
    if args.follow {
        return follow_run(&client, &args, &request, output).await;
    }
    let spinner = progress::spinner(&format!("running {}", request.skill));
    let ran = client.run(&request).await;
    drop(spinner);
    let ran = ran?;
    print_execution(&ran, output)?;
    if let Some(directory) = &args.download {
        exec::download_files(&client, &ran.execution_id.to_string(), &ran.files, directory).await?;
    }
    Ok(ExitCode::from(exit_code(&ran)))
}

/// Starts the run and prints its log live, then the rest of its result.
async fn follow_run(
    client: &Client,
    args: &RunArgs,
    request: &RunRequest,
    output: Output,
) -> Result<ExitCode> {
    let started = client.run(request).await?;
    let id = started.execution_id.to_string();
    // If a script was named, its standard output is the result. Otherwise the result is the output
    // document, and the whole log goes to standard error.
    let split = args.script().is_some() && !output.is_json();
    let (mut stdout, mut stderr) = (0, 0);
    let show = |line: &LogLine| {
        match line.stream.as_str() {
            "stdout" if split => {
                stdout += line.text.len();
                output.untrusted(&line.text)?;
            }
            // Written before this execution had a follower, when the streams were still merged. The
            // result has them separately, and what is missing here is printed from there.
            "merged" if split => {}
            _ => {
                stderr += line.text.len();
                write_untrusted_chunk(&line.text);
            }
        }
        Ok(())
    };
    let ran = match follow(client, &id, show).await? {
        FollowEnd::Ended(ran) => ran,
        FollowEnd::Interrupted => return Ok(FollowEnd::interrupted_exit_code()),
    };
    if output.is_json() {
        output.line(&ran.raw)?;
    } else {
        if split {
            output.untrusted(unprinted(ran.stdout.as_deref(), stdout))?;
            write_untrusted_chunk(unprinted(ran.stderr.as_deref(), stderr));
        }
        if let Some(document) = &ran.output {
            output.line(&serde_json::to_string_pretty(document)?)?;
        }
        note(&summary(&ran));
    }
    if let Some(directory) = &args.download {
        exec::download_files(client, &id, &ran.files, directory).await?;
    }
    Ok(ExitCode::from(exit_code(&ran)))
}

/// The part of a stream that was not printed yet.
fn unprinted(stream: Option<&str>, printed: usize) -> &str {
    stream.and_then(|text| text.get(printed..)).unwrap_or_default()
}

fn request(args: &RunArgs) -> Result<RunRequest> {
    args.inputs.check()?;
    let (name, version) = input::name_and_version(&args.skill);
    let version =
        args.version.clone().or_else(|| (version != "latest").then(|| version.to_owned()));
    Ok(RunRequest {
        skill: name.to_owned(),
        version,
        input: args.inputs.input()?,
        env: args.inputs.env.iter().cloned().collect(),
        input_files: Vec::new(),
        script: args.script(),
        args: args.args.clone(),
        stdin: args.inputs.stdin()?,
        cwd: args.inputs.cwd.map(|cwd| cwd.as_str().to_owned()),
        timeout: args.inputs.timeout.clone(),
        mode: (args.background || args.follow).then(|| "async".to_owned()),
        webhook: args.webhook.clone(),
        idempotency_key: args.idempotency_key.clone(),
    })
}

/// Prints the result on standard output and everything about it on standard error.
fn print_execution(ran: &Reply<Execution>, output: Output) -> Result<()> {
    if output.is_json() {
        output.line(&ran.raw)?;
        return Ok(());
    }
    if !ran.status.is_terminal() {
        note(&format!("{}; see `skillbox exec get {}`", ran.status.as_str(), ran.execution_id));
        output.line(&ran.execution_id.to_string())?;
        return Ok(());
    }
    match (&ran.output, &ran.stdout) {
        (Some(document), _) => {
            write_untrusted_note(ran.logs.as_deref().unwrap_or_default());
            output.line(&serde_json::to_string_pretty(document)?)?;
        }
        // Without an output document, the streams of the script are its result, as for any other
        // program.
        (None, Some(stdout)) => {
            write_untrusted_note(ran.stderr.as_deref().unwrap_or_default());
            output.untrusted(stdout)?;
        }
        (None, None) => output.untrusted(ran.logs.as_deref().unwrap_or_default())?,
    }
    note(&summary(ran));
    Ok(())
}

/// `success in 35 ms (exited 0, cpu 30 ms, memory 9.8 MiB), files: report.md (1.2 KiB) — execution
/// 0190…`
pub(crate) fn summary(ran: &Execution) -> String {
    let mut metadata = Vec::new();
    if let Some(outcome) = &ran.outcome {
        let code = ran.exit_code.map(|code| format!(" {code}")).unwrap_or_default();
        metadata.push(format!("{}{code}", outcome.replace('_', " ")));
    }
    if let Some(usage) = &ran.usage {
        metadata.push(format!("cpu {}", text::duration(usage.cpu_ms)));
        metadata.push(format!("memory {}", text::size(usage.peak_memory_bytes)));
    }
    let mut line =
        format!("{} in {}", ran.status.as_str(), text::duration(ran.duration_ms.unsigned_abs()));
    if !metadata.is_empty() {
        line.push_str(&format!(" ({})", metadata.join(", ")));
    }
    if let Some(error) = &ran.error {
        line.push_str(&format!(": {}", terminal::sanitize(error)));
    }
    if !ran.files.is_empty() {
        let files: Vec<String> = ran
            .files
            .iter()
            .map(|file| {
                format!("{} ({})", terminal::sanitize(&file.name), text::size(file.size_bytes))
            })
            .collect();
        line.push_str(&format!("\nfiles: {}", files.join(", ")));
    }
    for skipped in &ran.skipped {
        line.push_str(&terminal::sanitize(&format!(
            "\nnot collected: {} ({})",
            skipped.path, skipped.why
        )));
    }
    for clamped in &ran.clamped {
        line.push_str(&format!("\n{}", terminal::sanitize(clamped)));
    }
    line.push_str(&format!("\nexecution {}", ran.execution_id));
    line
}

/// The exit code of the script for a failed run, so that shells can act on it.
fn exit_code(ran: &Execution) -> u8 {
    match ran.status {
        ExecutionStatus::Success | ExecutionStatus::Queued | ExecutionStatus::Running => 0,
        ExecutionStatus::Timeout => 124,
        ExecutionStatus::Cancelled => 130,
        ExecutionStatus::Failed | ExecutionStatus::Unknown => match ran.exit_code.map(u8::try_from)
        {
            Some(Ok(code)) if code != 0 => code,
            _ => 1,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn execution(status: &str, exit_code: &str) -> Execution {
        let id = "0190c0de-0000-7000-8000-000000000000";
        let text = format!(
            r#"{{"execution_id":"{id}","status":"{status}","exit_code":{exit_code},"error":null}}"#
        );
        serde_json::from_str(&text).expect("an execution")
    }

    #[test]
    fn exit_codes_follow_the_contract() {
        for (status, code, expected) in [
            ("success", "0", 0),
            ("failed", "3", 3),
            ("failed", "137", 137),
            ("failed", "null", 1),
            ("failed", "0", 1),
            ("failed", "-1", 1),
            ("timeout", "137", 124),
            ("cancelled", "null", 130),
            ("queued", "null", 0),
        ] {
            assert_eq!(exit_code(&execution(status, code)), expected, "{status} {code}");
        }
    }

    #[test]
    fn a_summary_has_outcome_and_sanitized_error() {
        let mut ran = execution("failed", "3");
        ran.outcome = Some("out_of_memory".into());
        ran.error = Some("killed\x1b[2J".into());
        let line = summary(&ran);
        assert!(line.starts_with("failed in 0 ms (out of memory 3): killed\u{fffd}[2J"), "{line}");
    }
}
