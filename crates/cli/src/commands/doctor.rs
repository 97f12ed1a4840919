//! `skillbox doctor`.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use server::config::Config;

use crate::output::Output;

#[derive(Args)]
pub struct DoctorArgs {
    #[command(flatten)]
    server: server::config::Args,
}

/// Looks at the machine as `serve` would with the same flags and variables. Exit code 1 says that no skill can run here.
pub async fn run(args: &DoctorArgs, output: Output) -> Result<ExitCode> {
    let config = Config::load(&args.server)?;
    let report = sandbox::doctor(config.runtime_path).await;
    if output.is_json() {
        output.line(&serde_json::to_string(&report)?)?;
    } else {
        output.line(report.to_string().trim_end())?;
    }
    Ok(if report.is_healthy() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
