//! `skillbox config`.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use server::config::{Config, effective};

use crate::output::Output;

#[derive(Args)]
pub(crate) struct ConfigArgs {
    #[command(flatten)]
    server: server::config::Args,
}

pub(crate) fn run(args: &ConfigArgs, output: Output) -> Result<ExitCode> {
    let config = Config::load(&args.server)?;
    let settings = effective(&config);
    if output.is_json() {
        output.line(&serde_json::to_string(&settings)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let source = |source| {
        serde_json::to_value(source)
            .ok()
            .and_then(|word| word.as_str().map(str::to_owned))
            .unwrap_or_default()
    };
    let rows = settings
        .into_iter()
        .map(|setting| vec![setting.name, setting.value, source(setting.source)]);
    output.table(&["variable", "value", "source"], rows)?;
    Ok(ExitCode::SUCCESS)
}
