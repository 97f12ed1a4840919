//! `skillbox webhook`.

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

use crate::args::Global;
use crate::connection;
use crate::output::Output;

#[derive(Subcommand)]
pub(crate) enum WebhookCommand {
    /// Print the secret with which receivers verify signatures.
    Secret,
}

pub(crate) async fn run(
    global: &Global,
    command: WebhookCommand,
    output: Output,
) -> Result<ExitCode> {
    let client = connection::open(global)?;
    match command {
        WebhookCommand::Secret => {
            let response = client.webhook_secret().await?;
            output.line(if output.is_json() { &response.raw } else { &response.secret })?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
