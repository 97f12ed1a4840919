//! `skill package`: writes the canonical zip of a skill.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::json;

use super::lint;
use crate::output::Output;
use crate::{skill_reader, text};

#[derive(Args)]
pub(crate) struct PackageArgs {
    /// The skill's directory, or a zip to convert to the canonical form.
    #[arg(value_name = "DIR")]
    path: PathBuf,
    /// File to write. By default NAME-VERSION.zip.
    #[arg(short = 'O', long = "out", value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(super) fn run(args: &PackageArgs, output: Output) -> Result<ExitCode> {
    let package = skill_reader::read_valid(&args.path)?;
    lint::print_findings(&package.findings);
    let manifest = &package.manifest;
    let out = args
        .out
        .clone()
        .unwrap_or_else(|| format!("{}-{}.zip", manifest.name, manifest.version).into());
    let zip = package.to_upload_archive()?;
    std::fs::write(&out, &zip).with_context(|| format!("cannot write {}", out.display()))?;
    if output.is_json() {
        output.line(
            &json!({
                "name": manifest.name, "version": manifest.version, "digest": package.digest,
                "path": out, "size_bytes": zip.len(), "findings": package.findings,
            })
            .to_string(),
        )?;
    } else {
        let size = text::size(zip.len() as u64);
        output.line(&format!("{}  {}  {size}", out.display(), package.digest))?;
    }
    Ok(ExitCode::SUCCESS)
}
