//! `skillbox version`.

use std::process::ExitCode;

use anyhow::Result;
use serde_json::json;

use crate::output::Output;

pub(crate) fn run(output: Output) -> Result<ExitCode> {
    let version = env!("CARGO_PKG_VERSION");
    if output.is_json() {
        output.line(
            &json!({"version": version, "build": build(), "os": std::env::consts::OS, "arch": std::env::consts::ARCH})
                .to_string(),
        )?;
    } else {
        output.line(&format!(
            "skillbox {version} ({}, {} {})",
            build(),
            std::env::consts::OS,
            std::env::consts::ARCH
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The build profile. Benchmarks of a debug build are meaningless, so reports include it.
pub(crate) fn build() -> &'static str {
    if cfg!(debug_assertions) { "debug" } else { "release" }
}
