//! `skillbox migrate`.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde_json::json;
use server::MigrationReport;
use server::config::Config;

use crate::output::Output;

#[derive(Args)]
pub(crate) struct MigrateArgs {
    #[command(flatten)]
    server: server::config::Args,
}

/// Applies pending migrations to the configured database and prints them.
pub(crate) async fn run(args: &MigrateArgs, output: Output) -> Result<ExitCode> {
    let config = Config::load(&args.server)?;
    let MigrationReport { from, applied, to } = server::migrate(&config).await?;
    if output.is_json() {
        let applied: Vec<_> =
            applied.iter().map(|(step, name)| json!({ "step": step, "name": name })).collect();
        output.line(&json!({ "from": from, "taken": applied, "to": to }).to_string())?;
        return Ok(ExitCode::SUCCESS);
    }
    for (step, name) in &applied {
        output.line(&format!("applied migration {step}, {name}"))?;
    }
    match applied.is_empty() {
        true => output.line(&format!("nothing to do: the schema is at version {to}"))?,
        false => {
            output.line(&format!("migrated the schema from version {from} to version {to}"))?
        }
    }
    Ok(ExitCode::SUCCESS)
}
