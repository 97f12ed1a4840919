//! `skill lint`: skills checked without a server, for people, programs and code scanning.

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
pub struct LintArgs {
    /// Skill directories or zips.
    #[arg(required = true, value_name = "DIR|ZIP")]
    paths: Vec<PathBuf>,
    /// Whose rules count: default, strict (the open specification), anthropic or openai.
    #[arg(long, default_value_t = Profile::Default)]
    profile: Profile,
    /// Fail on warnings too.
    #[arg(long)]
    strict: bool,
    /// What to print, instead of what -o says: SARIF is for code scanning.
    #[arg(long, value_enum)]
    format: Option<LintFormat>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LintFormat {
    Table,
    Json,
    Sarif,
}

/// One skill, checked.
pub struct Checked {
    pub path: PathBuf,
    pub findings: Vec<Finding>,
    /// Name, version and digest; or why there are none.
    about: Result<About, Refusal>,
}

struct About {
    name: String,
    version: String,
    digest: String,
}

struct Refusal {
    slug: &'static str,
    message: String,
}

impl Checked {
    /// Reads and checks one skill. The error is ours: there is nothing to check.
    pub fn read(path: &Path, profile: Profile) -> Result<Self> {
        let (findings, about) = match skill_reader::read(path)? {
            Ok(package) => {
                let mut findings = package.findings_for(profile);
                findings.extend(skill_reader::extra_findings(&package));
                let (name, version) = (package.manifest.name, package.manifest.version);
                (findings, Ok(About { name, version, digest: package.digest }))
            }
            Err(error) => {
                (error.findings(), Err(Refusal { slug: error.slug(), message: error.to_string() }))
            }
        };
        Ok(Self { path: path.to_owned(), findings, about })
    }

    /// Whether there is nothing that makes the check fail.
    pub fn passes(&self, strict: bool) -> bool {
        !self.findings.iter().any(|finding| match finding.severity {
            Severity::Error => true,
            Severity::Warning => strict,
            Severity::Info => false,
        })
    }

    fn report(&self, profile: Profile, strict: bool) -> Value {
        let mut report =
            json!({"path": self.path, "profile": profile.as_str(), "valid": self.passes(strict)});
        match &self.about {
            Ok(about) => {
                report["name"] = about.name.as_str().into();
                report["version"] = about.version.as_str().into();
                report["digest"] = about.digest.as_str().into();
            }
            Err(refusal) => {
                report["error"] = refusal.slug.into();
                report["message"] = refusal.message.as_str().into();
            }
        }
        report["findings"] = json!(self.findings);
        report
    }

    /// What a person wants to know in the end.
    fn verdict(&self) -> String {
        let subject = match &self.about {
            Ok(about) => format!("{}@{}", about.name, about.version),
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

/// Exit code 1 says that a skill has errors; 2 that there was nothing to check.
pub fn run(args: &LintArgs, output: Output) -> Result<ExitCode> {
    let checked = args
        .paths
        .iter()
        .map(|path| Checked::read(path, args.profile))
        .collect::<Result<Vec<_>>>()?;
    let usual = if output.is_json() { LintFormat::Json } else { LintFormat::Table };
    match args.format.unwrap_or(usual) {
        LintFormat::Json => {
            for skill in &checked {
                output.line(&skill.report(args.profile, args.strict).to_string())?;
            }
        }
        LintFormat::Sarif => output.line(&sarif::document(&checked, args.profile).to_string())?,
        LintFormat::Table => {
            for skill in &checked {
                let within = (checked.len() > 1).then_some(skill.path.as_path());
                for finding in &skill.findings {
                    output.line(&format_finding(finding, within))?;
                }
                note(&skill.verdict());
            }
        }
    }
    let passes = checked.iter().all(|skill| skill.passes(args.strict));
    Ok(if passes { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// `warning[name_not_portable] SKILL.md:2: other runtimes refuse the name`
pub fn format_finding(finding: &Finding, within: Option<&Path>) -> String {
    let path = match (within, &finding.path) {
        (Some(skill), Some(path)) => Some(skill.join(path).display().to_string()),
        (Some(skill), None) => Some(skill.display().to_string()),
        (None, path) => path.clone(),
    };
    let place = match (path, finding.line) {
        (Some(path), Some(line)) => format!(" {path}:{line}:"),
        (Some(path), None) => format!(" {path}:"),
        (None, _) => String::new(),
    };
    terminal::sanitize(&format!(
        "{}[{}]{place} {}",
        finding.severity, finding.code, finding.message
    ))
}

/// Prints findings to standard error, for commands whose result is something else.
pub fn print_findings(findings: &[Finding]) {
    for finding in findings {
        note(&format_finding(finding, None));
    }
}
