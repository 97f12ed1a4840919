//! `skillbox webhook`.

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

use crate::args::Global;
use crate::connection;
use crate::output::Output;

#[derive(Subcommand)]
pub enum WebhookCommand {
    /// Print the secret that receivers check signatures with.
    Secret,
}

pub async fn run(global: &Global, command: WebhookCommand, output: Output) -> Result<ExitCode> {
    let client = connection::open(global)?;
    match command {
        WebhookCommand::Secret => {
            let answer = client.webhook_secret().await?;
            output.line(if output.is_json() { &answer.raw } else { &answer.secret })?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
