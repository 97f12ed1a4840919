//! `skillbox run`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use client::{Execution, Reply, RunRequest, Status};

use super::exec;
use crate::args::Global;
use crate::output::{Output, note, untrusted_note};
use crate::{connection, input, progress, text};

#[derive(Args)]
pub struct RunArgs {
    /// The skill's name, or name@version.
    skill: String,
    /// Input document: JSON, @FILE, or - for standard input.
    #[arg(long, short = 'i', value_name = "JSON|@FILE|-")]
    input: Option<String>,
    /// Version to run instead of the newest.
    #[arg(long)]
    version: Option<String>,
    /// Run this file of the skill instead of its entrypoint.
    #[arg(long, value_name = "PATH")]
    script: Option<String>,
    /// Directory the script starts in.
    #[arg(long, value_enum)]
    cwd: Option<Cwd>,
    /// Standard input of the script: text, @FILE, or -.
    #[arg(long, value_name = "TEXT|@FILE|-")]
    stdin: Option<String>,
    /// Environment variable for the script; may be given several times.
    #[arg(long, value_name = "NAME=VALUE", value_parser = input::assignment)]
    env: Vec<(String, String)>,
    /// Time limit, such as 30s; it can only shorten the skill's own.
    #[arg(long, value_name = "DURATION")]
    timeout: Option<String>,
    /// Write the files the run leaves into this directory.
    #[arg(long, value_name = "DIR", conflicts_with = "background")]
    download: Option<PathBuf>,
    /// Do not wait for the end; print the execution's id.
    #[arg(long = "async")]
    background: bool,
    /// Send the run under this key: repeated with the same key, it gives the same execution.
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Arguments of the script.
    #[arg(last = true)]
    pub args: Vec<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Cwd {
    Sandbox,
    Skill,
    Workspace,
}

pub async fn run(global: &Global, args: RunArgs, output: Output) -> Result<ExitCode> {
    let client = connection::open(global)?;
    let request = request(&args)?;
    let spinner = progress::spinner(&format!("running {}", request.skill));
    let ran = client.run(&request).await;
    drop(spinner);
    let ran = ran?;
    print(&ran, output)?;
    if let Some(directory) = &args.download {
        exec::save(&client, &ran.execution_id.to_string(), &ran.files, directory).await?;
    }
    Ok(ExitCode::from(exit_code(&ran)))
}

fn request(args: &RunArgs) -> Result<RunRequest> {
    if args.input.as_deref() == Some("-") && args.stdin.as_deref() == Some("-") {
        bail!("standard input can be read only once; give --input or --stdin as a file");
    }
    let (name, version) = input::name_and_version(&args.skill);
    let version = args.version.clone().or_else(|| (version != "latest").then(|| version.to_owned()));
    let cwd = args.cwd.map(|cwd| match cwd {
        Cwd::Sandbox => "sandbox".to_owned(),
        Cwd::Skill => "skill".to_owned(),
        Cwd::Workspace => "workspace".to_owned(),
    });
    Ok(RunRequest {
        skill: name.to_owned(),
        version,
        input: args.input.as_deref().map(input::read_json).transpose()?,
        env: args.env.iter().cloned().collect(),
        input_files: Vec::new(),
        script: args.script.clone(),
        args: args.args.clone(),
        stdin: args.stdin.as_deref().map(input::read).transpose()?,
        cwd,
        timeout: args.timeout.clone(),
        mode: args.background.then(|| "async".to_owned()),
        idempotency_key: args.idempotency_key.clone(),
    })
}

/// Results on standard output, everything about them on standard error.
fn print(ran: &Reply<Execution>, output: Output) -> Result<()> {
    if output.is_json() {
        output.line(&ran.raw)?;
        return Ok(());
    }
    if !ran.status.is_final() {
        note(&format!("{}; `skillbox exec get {}` shows it", ran.status.as_str(), ran.execution_id));
        output.line(&ran.execution_id.to_string())?;
        return Ok(());
    }
    match (&ran.output, &ran.stdout) {
        (Some(document), _) => {
            untrusted_note(ran.logs.as_deref().unwrap_or_default());
            output.line(&serde_json::to_string_pretty(document)?)?;
        }
        // A script without an output document is a program like any other: its streams are its result.
        (None, Some(stdout)) => {
            untrusted_note(ran.stderr.as_deref().unwrap_or_default());
            output.untrusted(stdout)?;
        }
        (None, None) => output.untrusted(ran.logs.as_deref().unwrap_or_default())?,
    }
    note(&summary(ran));
    Ok(())
}

/// `success in 35 ms (exited 0, cpu 30 ms, memory 9.8 MiB), files: report.md (1.2 KiB) — execution 0190…`
pub fn summary(ran: &Execution) -> String {
    let mut facts = Vec::new();
    if let Some(outcome) = &ran.outcome {
        let code = ran.exit_code.map(|code| format!(" {code}")).unwrap_or_default();
        facts.push(format!("{}{code}", outcome.replace('_', " ")));
    }
    if let Some(usage) = &ran.usage {
        facts.push(format!("cpu {}", text::duration(usage.cpu_ms)));
        facts.push(format!("memory {}", text::size(usage.peak_memory_bytes)));
    }
    let mut line = format!("{} in {}", ran.status.as_str(), text::duration(ran.duration_ms.unsigned_abs()));
    if !facts.is_empty() {
        line.push_str(&format!(" ({})", facts.join(", ")));
    }
    if let Some(error) = &ran.error {
        line.push_str(&format!(": {}", text::harmless(error)));
    }
    if !ran.files.is_empty() {
        let files: Vec<String> = ran
            .files
            .iter()
            .map(|file| format!("{} ({})", text::harmless(&file.name), text::size(file.size_bytes)))
            .collect();
        line.push_str(&format!("\nfiles: {}", files.join(", ")));
    }
    for skipped in &ran.skipped {
        line.push_str(&text::harmless(&format!("\nnot collected: {} ({})", skipped.path, skipped.why)));
    }
    for clamped in &ran.clamped {
        line.push_str(&format!("\n{}", text::harmless(clamped)));
    }
    line.push_str(&format!("\nexecution {}", ran.execution_id));
    line
}

/// A failed run is the script's failure: its own code, so that shells can act on it.
fn exit_code(ran: &Execution) -> u8 {
    match ran.status {
        Status::Success | Status::Queued | Status::Running => 0,
        Status::Timeout => 124,
        Status::Cancelled => 130,
        Status::Failed | Status::Unknown => match ran.exit_code.map(u8::try_from) {
            Some(Ok(code)) if code != 0 => code,
            _ => 1,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(status: &str, exit_code: &str) -> Execution {
        let id = "0190c0de-0000-7000-8000-000000000000";
        let text = format!(r#"{{"execution_id":"{id}","status":"{status}","exit_code":{exit_code},"error":null}}"#);
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
            assert_eq!(exit_code(&ended(status, code)), expected, "{status} {code}");
        }
    }

    #[test]
    fn a_summary_says_how_it_ended() {
        let mut ran = ended("failed", "3");
        ran.outcome = Some("out_of_memory".into());
        ran.error = Some("killed\x1b[2J".into());
        let line = summary(&ran);
        assert!(line.starts_with("failed in 0 ms (out of memory 3): killed\u{fffd}[2J"), "{line}");
    }
}
