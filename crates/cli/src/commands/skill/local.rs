//! Skills on this machine's disk: reading them, and `skill package`.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::json;
use skill::{Finding, Limits, Package, SkillError, Tree};

use super::lint;
use crate::output::{Output, note};
use crate::text;

#[derive(Args)]
pub struct PackageArgs {
    /// The skill's directory, or a zip to make canonical.
    #[arg(value_name = "DIR")]
    path: PathBuf,
    /// Where to write the zip; NAME-VERSION.zip by default.
    #[arg(short = 'O', long = "out", value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Reads a directory or a zip. The outer error is ours (no such file), the inner one the skill's.
pub fn read(path: &Path) -> Result<Result<Package, SkillError>> {
    Ok(read_with_directory(path)?.0)
}

/// The same, with the open directory that the skill was read from, if it was one.
pub fn read_with_directory(path: &Path) -> Result<(Result<Package, SkillError>, Option<Tree>)> {
    let context = || format!("cannot read {}", path.display());
    // Opened once: its type and its content are those of the same descriptor.
    let mut zip = match Tree::from_file(File::open(path).with_context(context)?, path)
        .with_context(context)?
    {
        Ok(tree) => return Ok((skill::read_tree(&tree, &Limits::default()), Some(tree))),
        Err(file) => file,
    };
    let mut bytes = Vec::new();
    zip.read_to_end(&mut bytes).with_context(context)?;
    Ok((skill::read_archive(&bytes, &Limits::default()), None))
}

/// What is said about a skill beside its own findings: by the scanner, and by whoever would enforce
/// its schemas.
pub fn more_findings(package: &Package) -> Vec<Finding> {
    let mut findings = skill::scan(&package.files, package.entrypoint.as_ref());
    findings.extend(runner::unusable_schemas(package));
    findings
}

/// The same for commands that cannot go on with a bad skill, with all that is said about it.
pub fn read_valid(path: &Path) -> Result<Package> {
    let read = read(path)?;
    let mut package =
        read.with_context(|| format!("{} is not a skill that can be published", path.display()))?;
    package.findings.extend(more_findings(&package));
    Ok(package)
}

pub fn package(args: &PackageArgs, output: Output) -> Result<ExitCode> {
    let package = read_valid(&args.path)?;
    print_findings(&package.findings);
    let manifest = &package.manifest;
    let out = args
        .out
        .clone()
        .unwrap_or_else(|| format!("{}-{}.zip", manifest.name, manifest.version).into());
    let zip = package.for_transport()?;
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

/// Findings on standard error, for commands whose result is something else.
pub fn print_findings(findings: &[Finding]) {
    for finding in findings {
        note(&lint::words(finding, None));
    }
}
