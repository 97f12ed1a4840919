//! `skill lint`: checks skills without a server, with output for people, programs and code scanning.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use skill::{Finding, Profile, Severity};

use super::sarif;
use crate::output::{Output, note};
use crate::{skill_reader, terminal, text};

#[derive(Args)]
pub(crate) struct LintArgs {
    /// Skill directories or zips.
    #[arg(required = true, value_name = "DIR|ZIP")]
    paths: Vec<PathBuf>,
    /// Profile of rules: default, strict (the open specification), anthropic or openai.
    #[arg(long, default_value_t = Profile::Default)]
    profile: Profile,
    /// Treat warnings as errors.
    #[arg(long)]
    strict: bool,
    /// Output format, instead of the one of -o. SARIF is for code scanning.
    #[arg(long, value_enum)]
    format: Option<LintFormat>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LintFormat {
    Table,
    Json,
    Sarif,
}

/// The result of checking one skill.
pub(crate) struct LintResult {
    pub path: PathBuf,
    pub findings: Vec<Finding>,
    /// Identifies a valid skill, or contains the error of an invalid one.
    identity: Result<SkillIdentity, InvalidSkill>,
}

struct SkillIdentity {
    name: String,
    version: String,
    digest: String,
}

struct InvalidSkill {
    slug: &'static str,
    message: String,
}

impl LintResult {
    /// Reads and checks one skill. `Err` means that the skill could not be read at all.
    pub(crate) fn read(path: &Path, profile: Profile) -> Result<Self> {
        let (findings, identity) = match skill_reader::read(path)? {
            Ok(package) => {
                let mut findings = package.findings_for(profile);
                findings.extend(skill_reader::extra_findings(&package));
                let (name, version) = (package.manifest.name, package.manifest.version);
                (findings, Ok(SkillIdentity { name, version, digest: package.digest }))
            }
            Err(error) => (
                error.findings(),
                Err(InvalidSkill { slug: error.slug(), message: error.to_string() }),
            ),
        };
        Ok(Self { path: path.to_owned(), findings, identity })
    }

    /// Whether no finding makes the check fail.
    pub(crate) fn passes(&self, strict: bool) -> bool {
        !self.findings.iter().any(|finding| match finding.severity {
            Severity::Error => true,
            Severity::Warning => strict,
            Severity::Info => false,
        })
    }

    fn report(&self, profile: Profile, strict: bool) -> Value {
        let mut report =
            json!({"path": self.path, "profile": profile.as_str(), "valid": self.passes(strict)});
        match &self.identity {
            Ok(skill) => {
                report["name"] = skill.name.as_str().into();
                report["version"] = skill.version.as_str().into();
                report["digest"] = skill.digest.as_str().into();
            }
            Err(invalid) => {
                report["error"] = invalid.slug.into();
                report["message"] = invalid.message.as_str().into();
            }
        }
        report["findings"] = json!(self.findings);
        report
    }

    /// The number of errors and warnings, in one line.
    fn summary(&self) -> String {
        let subject = match &self.identity {
            Ok(skill) => format!("{}@{}", skill.name, skill.version),
            Err(_) => self.path.display().to_string(),
        };
        let count = |severity: Severity| {
            self.findings.iter().filter(|finding| finding.severity == severity).count()
        };
        let verdict = match (count(Severity::Error), count(Severity::Warning)) {
            (0, 0) => "no problems".to_owned(),
            (errors, warnings) => {
                format!("{}, {}", text::count(errors, "error"), text::count(warnings, "warning"))
            }
        };
        terminal::sanitize(&format!("{subject}: {verdict}"))
    }
}

/// Exit code 1 means that a skill has errors, 2 that one could not be read.
pub(crate) fn run(args: &LintArgs, output: Output) -> Result<ExitCode> {
    let results = args
        .paths
        .iter()
        .map(|path| LintResult::read(path, args.profile))
        .collect::<Result<Vec<_>>>()?;
    let default_format = if output.is_json() { LintFormat::Json } else { LintFormat::Table };
    match args.format.unwrap_or(default_format) {
        LintFormat::Json => {
            for skill in &results {
                output.line(&skill.report(args.profile, args.strict).to_string())?;
            }
        }
        LintFormat::Sarif => output.line(&sarif::document(&results, args.profile).to_string())?,
        LintFormat::Table => {
            for skill in &results {
                let base = (results.len() > 1).then_some(skill.path.as_path());
                for finding in &skill.findings {
                    output.line(&format_finding(finding, base))?;
                }
                note(&skill.summary());
            }
        }
    }
    let passes = results.iter().all(|skill| skill.passes(args.strict));
    Ok(if passes { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// `warning[name_not_portable] SKILL.md:2: other runtimes refuse the name`
pub(crate) fn format_finding(finding: &Finding, base: Option<&Path>) -> String {
    let path = match (base, &finding.path) {
        (Some(skill), Some(path)) => Some(skill.join(path).display().to_string()),
        (Some(skill), None) => Some(skill.display().to_string()),
        (None, path) => path.clone(),
    };
    let location = match (path, finding.line) {
        (Some(path), Some(line)) => format!(" {path}:{line}:"),
        (Some(path), None) => format!(" {path}:"),
        (None, _) => String::new(),
    };
    terminal::sanitize(&format!(
        "{}[{}]{location} {}",
        finding.severity, finding.code, finding.message
    ))
}

/// Prints findings to standard error, for commands whose result is something else.
pub(crate) fn print_findings(findings: &[Finding]) {
    for finding in findings {
        note(&format_finding(finding, None));
    }
}
