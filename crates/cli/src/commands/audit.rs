//! `skillbox audit`: one run without a server, and exactly one line about it on standard error.
//!
//! The script's own output, both streams of it in the order they were written, goes to standard
//! output; nothing else is said anywhere, so that whoever collects records can read standard error
//! line by line.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use chrono::{SecondsFormat, Utc};
use clap::Args;
use serde_json::{Value, json};

use super::inputs::Inputs;
use crate::local::{self, Facts, Finished, LocalArgs, Order, Show};
use crate::output::{Output, note};

#[derive(Args)]
pub struct AuditArgs {
    /// The skill's directory.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// The file of the skill to run.
    script: String,
    #[command(flatten)]
    inputs: Inputs,
    /// Write the files the run leaves into this directory.
    #[arg(long, value_name = "DIR")]
    download: Option<PathBuf>,
    #[command(flatten)]
    local: LocalArgs,
    /// Arguments of the script.
    #[arg(last = true)]
    args: Vec<String>,
}

/// A run that could not begin.
const FAILED_CALL: u8 = 2;

pub async fn run(args: AuditArgs, _: Output) -> Result<ExitCode> {
    let began = Utc::now();
    let mut facts = Facts { script: Some(args.script.clone()), ..Facts::default() };
    let finished = ran(&args, &mut facts).await;
    let record = json!({
        "ts": began.to_rfc3339_opts(SecondsFormat::Micros, true),
        "request_id": uuid::Uuid::now_v7(),
        "skill": facts.skill,
        "version": facts.version,
        "script": facts.script,
        "exit_code": finished.as_ref().ok().and_then(|finished| finished.ended.exit_code),
        "duration_ms": (Utc::now() - began).num_milliseconds(),
        "timed_out": finished.as_ref().is_ok_and(|finished| finished.ended.outcome == sandbox::Outcome::TimedOut),
        "network_allowed": facts.network_allowed,
        "memory_limit_mb": facts.memory_limit_bytes.map(|bytes| bytes >> 20),
        "timeout_ms": facts.timeout_ms,
        "trusted": facts.trusted,
        "sandbox": facts.sandbox,
        "digest": facts.digest,
        "outcome": finished.as_ref().map_or("refused", |finished| finished.ended.outcome.as_str()),
        "error": error(&finished),
        "clamped": facts.clamped,
        "network_attempts": finished.as_ref().map(|finished| json!(finished.ended.network_attempts)).unwrap_or_default(),
        "files": finished.as_ref().map(|finished| json!(finished.files)).unwrap_or_default(),
        "isolation": finished.as_ref().map(|finished| json!(finished.ended.isolation)).unwrap_or_default(),
    });
    note(&record.to_string());
    Ok(ExitCode::from(finished.as_ref().map_or(FAILED_CALL, Finished::exit_code)))
}

async fn ran(args: &AuditArgs, facts: &mut Facts) -> Result<Finished> {
    let order = Order {
        path: &args.dir,
        request: args.inputs.request(
            Some(args.script.clone()),
            &args.args,
            args.local.memory.as_deref(),
        )?,
        args: &args.local,
        show: Show::AsOutput,
        keep: false,
        download: args.download.clone(),
    };
    local::run(order, facts, |_| ()).await
}

fn error(finished: &Result<Finished>) -> Value {
    match finished {
        Ok(finished) => json!(finished.ended.error),
        Err(error) => json!(format!("{error:#}")),
    }
}
