//! `skill package` and `skill lint`: what can be done with a skill without a server.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::json;
use skill::{Finding, Limits, Package, Severity, SkillError};

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

#[derive(Args)]
pub struct LintArgs {
    /// The skill's directory or zip.
    #[arg(value_name = "DIR|ZIP")]
    path: PathBuf,
    /// Fail on warnings too.
    #[arg(long)]
    strict: bool,
}

/// Reads a directory or a zip. The outer error is ours (no such file), the inner one the skill's.
pub fn read(path: &Path) -> Result<Result<Package, SkillError>> {
    let metadata = std::fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?;
    if metadata.is_dir() {
        return Ok(skill::read_directory(path, &Limits::default()));
    }
    let zip = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(skill::read_archive(&zip, &Limits::default()))
}

/// The same for commands that cannot go on with a bad skill.
pub fn read_valid(path: &Path) -> Result<Package> {
    read(path)?.with_context(|| format!("{} is not a skill that can be published", path.display()))
}

pub fn package(args: &PackageArgs, output: Output) -> Result<ExitCode> {
    let package = read_valid(&args.path)?;
    print_findings(&package.findings);
    let manifest = &package.manifest;
    let out = args.out.clone().unwrap_or_else(|| format!("{}-{}.zip", manifest.name, manifest.version).into());
    std::fs::write(&out, &package.archive).with_context(|| format!("cannot write {}", out.display()))?;
    if output.is_json() {
        output.line(
            &json!({
                "name": manifest.name, "version": manifest.version, "digest": package.digest,
                "path": out, "size_bytes": package.archive.len(), "findings": package.findings,
            })
            .to_string(),
        )?;
    } else {
        let size = text::size(package.archive.len() as u64);
        output.line(&format!("{}  {}  {size}", out.display(), package.digest))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Exit code 1 says that the skill has errors; 2 that there was nothing to check.
pub fn lint(args: &LintArgs, output: Output) -> Result<ExitCode> {
    let read = read(&args.path)?;
    let (valid, report) = match &read {
        Ok(package) => (
            passes(&package.findings, args.strict),
            json!({
                "path": args.path, "valid": passes(&package.findings, args.strict), "name": package.manifest.name,
                "version": package.manifest.version, "digest": package.digest, "findings": package.findings,
            }),
        ),
        Err(error) => (
            false,
            json!({"path": args.path, "valid": false, "error": error.slug(), "message": error.to_string(), "findings": []}),
        ),
    };
    if output.is_json() {
        output.line(&report.to_string())?;
    } else {
        match &read {
            Ok(package) => {
                for finding in &package.findings {
                    output.line(&words(finding))?;
                }
                let manifest = &package.manifest;
                note(&format!("{}@{}: {}", manifest.name, manifest.version, verdict(&package.findings)));
            }
            Err(error) => output.line(&format!("error[{}] {}", error.slug(), text::harmless(&error.to_string())))?,
        }
    }
    Ok(if valid { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Findings on standard error, for commands whose result is something else.
pub fn print_findings(findings: &[Finding]) {
    for finding in findings {
        note(&words(finding));
    }
}

fn passes(findings: &[Finding], strict: bool) -> bool {
    !findings.iter().any(|finding| match finding.severity {
        Severity::Error => true,
        Severity::Warning => strict,
        Severity::Info => false,
    })
}

/// `warning[name-style] SKILL.md:2: the name should be lower case`
fn words(finding: &Finding) -> String {
    let place = match (&finding.path, finding.line) {
        (Some(path), Some(line)) => format!(" {path}:{line}:"),
        (Some(path), None) => format!(" {path}:"),
        (None, _) => String::new(),
    };
    let severity = match finding.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info => "info",
    };
    text::harmless(&format!("{severity}[{}]{place} {}", finding.code, finding.message))
}

fn verdict(findings: &[Finding]) -> String {
    let count = |severity: Severity| findings.iter().filter(|finding| finding.severity == severity).count();
    match (count(Severity::Error), count(Severity::Warning)) {
        (0, 0) => "no problems".into(),
        (errors, warnings) => format!("{}, {}", text::count(errors, "error"), text::count(warnings, "warning")),
    }
}
