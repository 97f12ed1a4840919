//! `skillbox audit`: one run without a server, with exactly one audit record on standard error.
//!
//! The script's two streams go to standard output, in the order they were written. Nothing else is
//! printed to standard error, so that a log collector can read one record per line.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use chrono::{DateTime, SecondsFormat, Utc};
use clap::Args;
use serde_json::{Value, json};

use super::inputs::ScriptInputs;
use crate::local_run::{
    self, FinishedRun, LocalArgs, LocalRunRequest, LogDestination, RunMetadata,
};
use crate::output::{Output, note};

#[derive(Args)]
pub(crate) struct AuditArgs {
    /// The skill's directory.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// File of the skill to run.
    script: String,
    #[command(flatten)]
    inputs: ScriptInputs,
    /// Write the files that the run leaves into this directory.
    #[arg(long, value_name = "DIR")]
    download: Option<PathBuf>,
    #[command(flatten)]
    local: LocalArgs,
    /// Arguments for the script.
    #[arg(last = true)]
    args: Vec<String>,
}

/// Exit code of a run that could not start.
const EXIT_FAILED_CALL: u8 = 2;

pub(crate) async fn run(args: AuditArgs, _: Output) -> Result<ExitCode> {
    let started_at = Utc::now();
    let mut metadata = RunMetadata { script: Some(args.script.clone()), ..RunMetadata::default() };
    let finished = run_script(&args, &mut metadata).await;
    note(&record(started_at, &metadata, &finished).to_string());
    Ok(ExitCode::from(finished.as_ref().map_or(EXIT_FAILED_CALL, FinishedRun::exit_code)))
}

async fn run_script(args: &AuditArgs, metadata: &mut RunMetadata) -> Result<FinishedRun> {
    let request = LocalRunRequest {
        path: &args.dir,
        request: args.inputs.to_request(
            Some(args.script.clone()),
            &args.args,
            args.local.memory.as_deref(),
        )?,
        args: &args.local,
        destination: LogDestination::Stdout,
        capture: false,
        download: args.download.clone(),
    };
    local_run::run(request, metadata, |_| ()).await
}

fn record(
    started_at: DateTime<Utc>,
    metadata: &RunMetadata,
    finished: &Result<FinishedRun>,
) -> Value {
    let result = finished.as_ref().ok().map(|finished| &finished.result);
    let timed_out = result.is_some_and(|result| result.outcome == sandbox::Outcome::TimedOut);
    json!({
        "ts": started_at.to_rfc3339_opts(SecondsFormat::Micros, true),
        "request_id": uuid::Uuid::now_v7(),
        "skill": metadata.skill,
        "version": metadata.version,
        "script": metadata.script,
        "exit_code": result.and_then(|result| result.exit_code),
        "duration_ms": (Utc::now() - started_at).num_milliseconds(),
        "timed_out": timed_out,
        "network_allowed": metadata.network_allowed,
        "memory_limit_mb": metadata.memory_limit_bytes.map(|bytes| bytes >> 20),
        "timeout_ms": metadata.timeout_ms,
        "trusted": metadata.trusted,
        "sandbox": metadata.sandbox,
        "digest": metadata.digest,
        "outcome": result.map_or("refused", |result| result.outcome.as_str()),
        "error": error(finished),
        "clamped": metadata.clamped,
        "network_attempts": result.map(|result| &result.network_attempts),
        "files": finished.as_ref().ok().map(|finished| &finished.files),
        "isolation": result.map(|result| &result.isolation),
    })
}

fn error(finished: &Result<FinishedRun>) -> Value {
    match finished {
        Ok(finished) => json!(finished.result.error),
        Err(error) => json!(format!("{error:#}")),
    }
}
