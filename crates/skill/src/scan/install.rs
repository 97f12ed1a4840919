//! Code that runs during installation, and packages from outside the usual index.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::patterns;
use super::source::{ScannedFile, TextKind};
use crate::error::printable;
use crate::{Finding, Severity};

static SETUP_HOOK: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"\bcmdclass\s*=|^(?:os\.system|os\.popen|subprocess\.\w+|urllib\.request\.\w+|requests\.\w+|exec|eval)\s*\(",
    )
    .expect("a constant pattern")
});

/// Lines of a requirements file, or arguments of pip and npm, that name a source other
/// than the usual index.
static FOREIGN_SOURCE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?i)(?:^|[\s=@'\x22])(?:(?:git|hg|svn|bzr)\+[a-z]+://|https?://)\S+|(?:^|\s)(?:-i\s|--index-url|--extra-index-url|--trusted-host|--find-links|-f\s|--registry)[\s=]*\S+",
    )
    .expect("a constant pattern")
});

static INSTALL_COMMAND: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"\b(?:pip[0-9.]*|uv\s+pip)["',\s]+install\b[^\n;&|]*|\b(?:npm|pnpm|yarn)["',\s]+(?:i|install|add)\b[^\n;&|]*"#)
        .expect("a constant pattern")
});

pub(super) fn find(source: &ScannedFile<'_>) -> Vec<Finding> {
    let name = source.file_name();
    match name {
        "package.json" => package_json(source),
        "setup.py" => setup_py(source).into_iter().collect(),
        ".npmrc" | "pip.conf" => registry(source),
        _ if is_requirements(name) => requirements(source),
        "sitecustomize.py" | "usercustomize.py" => {
            let message = "Python runs this file at every start, before any script; call it by its name where it is needed";
            vec![source.finding("install_hook", Severity::Warning, 0, message)]
        }
        _ if name.ends_with(".pth") => pth(source).into_iter().collect(),
        _ => commands(source),
    }
}

pub(super) fn is_requirements(name: &str) -> bool {
    name.starts_with("requirements") && name.ends_with(".txt")
}

fn package_json(source: &ScannedFile<'_>) -> Vec<Finding> {
    let Ok(package) = serde_json::from_str::<Value>(source.text) else { return Vec::new() };
    let mut findings = Vec::new();
    for hook in ["preinstall", "install", "postinstall"] {
        let Some(command) = package["scripts"][hook].as_str() else { continue };
        let at = source.text.find(&format!("\"{hook}\"")).unwrap_or(0);
        let severity =
            if patterns::matches_any(command) { Severity::Error } else { Severity::Warning };
        let message = format!(
            "npm runs `{}` whenever this is installed; let the user call it",
            printable(command)
        );
        findings.push(source.finding("install_hook", severity, at, &message));
    }
    for group in ["dependencies", "devDependencies", "optionalDependencies"] {
        let Some(packages) = package[group].as_object() else { continue };
        for (name, place) in packages {
            let Some(place) = place.as_str().filter(|place| FOREIGN_SOURCE.is_match(place)) else {
                continue;
            };
            let at = source.text.find(&format!("\"{name}\"")).unwrap_or(0);
            findings.push(foreign(source, at, place));
        }
    }
    findings
}

fn setup_py(source: &ScannedFile<'_>) -> Option<Finding> {
    let (number, _) = source.lines().find(|(_, line)| SETUP_HOOK.is_match(line))?;
    let severity =
        if patterns::matches_any(source.text) { Severity::Error } else { Severity::Warning };
    let message = "pip runs this when the package is installed; describe the package in pyproject.toml and let the user run the rest";
    Some(Finding::new("install_hook", severity, message).at(source.path, number))
}

/// Python executes the lines of such a file that begin with `import`.
fn pth(source: &ScannedFile<'_>) -> Option<Finding> {
    let (number, _) = source
        .lines()
        .find(|(_, line)| line.starts_with("import ") || line.starts_with("import\t"))?;
    let message =
        "Python runs this line at every start, before any script; no legitimate skill needs that";
    Some(Finding::new("install_hook", Severity::Error, message).at(source.path, number))
}

fn requirements(source: &ScannedFile<'_>) -> Vec<Finding> {
    let mut at = 0;
    let mut findings = Vec::new();
    for line in source.text.split_inclusive('\n') {
        let place = line.trim();
        if !place.starts_with('#') && FOREIGN_SOURCE.is_match(place) {
            findings.push(foreign(source, at, place));
        }
        at += line.len();
    }
    findings
}

fn registry(source: &ScannedFile<'_>) -> Vec<Finding> {
    let setting = |(number, line): (u32, &str)| {
        let line = line.trim();
        let (name, value) = line.split_once('=')?;
        let name = name.trim();
        let other = name.ends_with("registry")
            || matches!(name, "index-url" | "extra-index-url" | "trusted-host");
        let usual = value.contains("registry.npmjs.org") || value.contains("pypi.org");
        let message =
            format!("packages come from `{}` instead of the usual index", printable(value.trim()));
        (other && !usual && !line.starts_with(['#', ';'])).then(|| {
            Finding::new("foreign_package", Severity::Warning, message).at(source.path, number)
        })
    };
    source.lines().filter_map(setting).collect()
}

/// `pip install` and `npm install` in scripts.
fn commands(source: &ScannedFile<'_>) -> Vec<Finding> {
    if source.kind == TextKind::Data {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for found in INSTALL_COMMAND.find_iter(source.text) {
        let Some(place) = FOREIGN_SOURCE.find(found.as_str()) else { continue };
        let Some(severity) = source.severity_at(found.start(), Severity::Warning) else { continue };
        let mut finding = foreign(source, found.start(), place.as_str());
        finding.severity = severity;
        findings.push(finding);
    }
    findings
}

fn foreign(source: &ScannedFile<'_>, at: usize, place: &str) -> Finding {
    let message = format!(
        "`{}` does not come from the usual index, which could remove it or vouch for it; pin a released version",
        printable(place.trim())
    );
    source.finding("foreign_package", Severity::Warning, at, &message)
}
