//! `run` of a directory: no server, the log live, the script's own exit code.

use std::io;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use serde_json::{Value, json};

use super::RunArgs;
use crate::local::{self, Facts, Finished, Order, Saved, Show};
use crate::output::{Output, note};
use crate::text;

pub async fn run(path: &Path, args: &RunArgs, output: Output) -> Result<ExitCode> {
    let script = args.script();
    let show = match script {
        Some(_) if !output.is_json() => Show::Apart,
        // Without a script named the output document is the result, and all else is words about it.
        _ => Show::AsWords,
    };
    let order = Order {
        path,
        request: args.inputs.request(script, &args.args, args.local.memory.as_deref())?,
        args: &args.local,
        show,
        keep: output.is_json(),
        download: args.download.clone(),
    };
    let mut facts = Facts::default();
    let finished = local::run(order, &mut facts, warn).await?;
    if finished.unread {
        return Err(io::Error::from(io::ErrorKind::BrokenPipe).into());
    }
    match output.is_json() {
        true => output.line(&document(&facts, &finished).to_string())?,
        false => tell(&facts, &finished, args.download.as_deref(), output)?,
    }
    Ok(ExitCode::from(finished.exit_code()))
}

/// What is not as it should be is said before it happens.
fn warn(facts: &Facts) {
    if facts.trusted {
        note(
            "warning: NO SANDBOX: the script runs as you, with your files and your network (--trust-remote-code)",
        );
    } else if facts.network_allowed {
        note("warning: NETWORK OPEN: the script can reach everything that this machine can reach");
    }
}

/// Results on standard output, everything about them on standard error. The log has been shown
/// already.
fn tell(facts: &Facts, finished: &Finished, download: Option<&Path>, output: Output) -> Result<()> {
    if let Some(document) = &finished.ended.output {
        let document: Value = serde_json::from_str(document)?;
        output.line(&serde_json::to_string_pretty(&document)?)?;
    }
    note(&summary(facts, finished));
    match download {
        Some(directory) if !finished.files.is_empty() => {
            note(&format!(
                "saved {} to {}",
                text::count(finished.files.len(), "file"),
                directory.display()
            ));
        }
        None if !finished.files.is_empty() => {
            note("the files were not kept; --download DIR keeps them")
        }
        _ => {}
    }
    Ok(())
}

fn summary(facts: &Facts, Finished { ended, files, .. }: &Finished) -> String {
    let code = ended.exit_code.map(|code| format!(" {code}")).unwrap_or_default();
    let mut line = format!(
        "{}{code} in {}",
        ended.outcome.as_str().replace('_', " "),
        text::duration(ended.usage.wall_ms)
    );
    if !facts.trusted {
        let (cpu, memory) =
            (text::duration(ended.usage.cpu_ms), text::size(ended.usage.peak_memory_bytes));
        line.push_str(&format!(" (cpu {cpu}, memory {memory})"));
    }
    if let Some(error) = &ended.error {
        line.push_str(&format!(": {}", text::harmless(error)));
    }
    if ended.logs_truncated {
        line.push_str("\nthe log was cut");
    }
    if !files.is_empty() {
        let shown = |file: &Saved| {
            format!("{} ({})", text::harmless(&file.name), text::size(file.size_bytes))
        };
        line.push_str(&format!(
            "\nfiles: {}",
            files.iter().map(shown).collect::<Vec<_>>().join(", ")
        ));
    }
    for skipped in &ended.skipped {
        line.push_str(&text::harmless(&format!(
            "\nnot collected: {} ({})",
            skipped.path, skipped.reason
        )));
    }
    for clamped in &facts.clamped {
        line.push_str(&format!("\n{}", text::harmless(clamped)));
    }
    line
}

/// The keys are those of an execution on a server, where there is one of the same meaning.
fn document(facts: &Facts, finished: &Finished) -> Value {
    let Finished { ended, files, kept, .. } = finished;
    let output: Option<Value> =
        ended.output.as_deref().and_then(|output| serde_json::from_str(output).ok());
    let text = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
    json!({
        "status": local::status(ended),
        "output": output,
        "duration_ms": ended.usage.wall_ms,
        "error": ended.error,
        "exit_code": ended.exit_code,
        "outcome": ended.outcome,
        "stdout": kept.as_ref().map(|kept| text(&kept.stdout)),
        "stderr": kept.as_ref().map(|kept| text(&kept.stderr)),
        "files": files,
        "skipped": ended.skipped,
        "clamped": facts.clamped,
        "usage": (!facts.trusted).then_some(&ended.usage),
        "network_attempts": ended.network_attempts,
        "isolation": ended.isolation,
        "skill_name": facts.skill,
        "skill_version": facts.version,
        "digest": facts.digest,
        "script": facts.script,
        "sandbox": facts.sandbox,
        "network_allowed": facts.network_allowed,
        "trusted": facts.trusted,
    })
}
