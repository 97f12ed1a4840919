//! `skillbox health`.

use std::process::ExitCode;

use anyhow::Result;

use crate::args::Global;
use crate::connection;
use crate::output::Output;

/// Prints the readiness. Exit code 1 means that the server is up but not ready.
pub(crate) async fn run(global: &Global, output: Output) -> Result<ExitCode> {
    let client = connection::open(global)?;
    client.health().await?;
    let ready = client.ready().await?;
    if output.is_json() {
        output.line(&ready.raw)?;
    } else {
        output.line(&format!("{} is {}", client.base(), ready.status.replace('_', " ")))?;
        output.table(
            &[],
            ready.checks.iter().map(|(check, state)| vec![format!("  {check}"), state.clone()]),
        )?;
    }
    Ok(if ready.http_status == 200 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
