//! `run` of a directory: without a server, with a live log and the script's own exit code.

use std::io;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use serde_json::{Value, json};

use super::RunArgs;
use crate::local_run::{
    self, FinishedRun, LocalRunRequest, LogDestination, RunMetadata, SavedFile,
};
use crate::output::{Output, note};
use crate::{terminal, text};

pub(super) async fn run(path: &Path, args: &RunArgs, output: Output) -> Result<ExitCode> {
    let script = args.script();
    let destination = match script {
        Some(_) if !output.is_json() => LogDestination::Split,
        // Standard output carries the result document: the script's output document, or ours with
        // `-o json`.
        _ => LogDestination::Stderr,
    };
    let request = LocalRunRequest {
        path,
        request: args.inputs.to_request(script, &args.args, args.local.memory.as_deref())?,
        args: &args.local,
        destination,
        capture: output.is_json(),
        download: args.download.clone(),
    };
    let mut metadata = RunMetadata::default();
    let finished = local_run::run(request, &mut metadata, warn).await?;
    if finished.stdout_closed {
        return Err(io::Error::from(io::ErrorKind::BrokenPipe).into());
    }
    match output.is_json() {
        true => output.line(&document(&metadata, &finished).to_string())?,
        false => print_result(&metadata, &finished, args.download.as_deref(), output)?,
    }
    Ok(ExitCode::from(finished.exit_code()))
}

/// Warns about missing isolation before the script starts.
fn warn(metadata: &RunMetadata) {
    if metadata.trusted {
        note(
            "warning: NO SANDBOX: the script runs as you, with your files and your network (--trust-remote-code)",
        );
    } else if metadata.network_allowed {
        note("warning: NETWORK OPEN: the script can reach everything that this machine can reach");
    }
}

/// Prints the result on standard output and the summary on standard error. The log has been printed
/// during the run.
fn print_result(
    metadata: &RunMetadata,
    finished: &FinishedRun,
    download: Option<&Path>,
    output: Output,
) -> Result<()> {
    if let Some(document) = &finished.result.output {
        let document: Value = serde_json::from_str(document)?;
        output.line(&serde_json::to_string_pretty(&document)?)?;
    }
    note(&summary(metadata, finished));
    if finished.files.is_empty() {
        return Ok(());
    }
    match download {
        Some(directory) => note(&format!(
            "saved {} to {}",
            text::count(finished.files.len(), "file"),
            directory.display()
        )),
        None => note("the files were not saved; use --download DIR to save them"),
    }
    Ok(())
}

fn summary(metadata: &RunMetadata, FinishedRun { result, files, .. }: &FinishedRun) -> String {
    let code = result.exit_code.map(|code| format!(" {code}")).unwrap_or_default();
    let mut line = format!(
        "{}{code} in {}",
        result.outcome.as_str().replace('_', " "),
        text::duration(result.usage.wall_ms)
    );
    // Only a sandbox measures the resources of a run.
    if !metadata.trusted {
        let (cpu, memory) =
            (text::duration(result.usage.cpu_ms), text::size(result.usage.peak_memory_bytes));
        line.push_str(&format!(" (cpu {cpu}, memory {memory})"));
    }
    if let Some(error) = &result.error {
        line.push_str(&format!(": {}", terminal::sanitize(error)));
    }
    if result.logs_truncated {
        line.push_str("\nthe log was truncated");
    }
    if !files.is_empty() {
        let describe = |file: &SavedFile| {
            format!("{} ({})", terminal::sanitize(&file.name), text::size(file.size_bytes))
        };
        line.push_str(&format!(
            "\nfiles: {}",
            files.iter().map(describe).collect::<Vec<_>>().join(", ")
        ));
    }
    for skipped in &result.skipped {
        line.push_str(&terminal::sanitize(&format!(
            "\nnot collected: {} ({})",
            skipped.path, skipped.reason
        )));
    }
    for clamped in &metadata.clamped {
        line.push_str(&format!("\n{}", terminal::sanitize(clamped)));
    }
    line
}

/// The result as JSON. Keys that an execution on a server also has, have the same meaning.
fn document(metadata: &RunMetadata, finished: &FinishedRun) -> Value {
    let FinishedRun { result, files, captured, .. } = finished;
    let output: Option<Value> =
        result.output.as_deref().and_then(|output| serde_json::from_str(output).ok());
    let text = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
    json!({
        "status": result.status(),
        "output": output,
        "duration_ms": result.usage.wall_ms,
        "error": result.error,
        "exit_code": result.exit_code,
        "outcome": result.outcome,
        "stdout": captured.as_ref().map(|captured| text(&captured.stdout)),
        "stderr": captured.as_ref().map(|captured| text(&captured.stderr)),
        "files": files,
        "skipped": result.skipped,
        "clamped": metadata.clamped,
        "usage": (!metadata.trusted).then_some(&result.usage),
        "network_attempts": result.network_attempts,
        "isolation": result.isolation,
        "skill_name": metadata.skill,
        "skill_version": metadata.version,
        "digest": metadata.digest,
        "script": metadata.script,
        "sandbox": metadata.sandbox,
        "network_allowed": metadata.network_allowed,
        "trusted": metadata.trusted,
    })
}
