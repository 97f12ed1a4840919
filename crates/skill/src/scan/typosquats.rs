//! Packages whose names are one edit away from the name of a popular one.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::install::is_requirements;
use super::popular::{NPM, PYPI, PYTHON_MODULES, SQUATS, UNRELATED};
use super::source::{ScannedFile, TextKind};
use crate::error::printable;
use crate::{Finding, Severity, SkillFile};

/// Shorter names are similar by chance.
const MIN_NAME_CHARS: usize = 5;

static PYTHON_IMPORT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?m)^[ \t]*(?:import|from)[ \t]+([A-Za-z_][A-Za-z0-9_]*)")
        .expect("a constant pattern")
});
static NODE_IMPORT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r#"(?:\brequire\s*\(\s*|\bfrom\s+|\bimport\s+|\bimport\s*\(\s*)["']([a-z0-9][a-z0-9._-]*)(?:/[^"']*)?["']"#,
    )
    .expect("a constant pattern")
});
static REQUIREMENT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[|[=<>!~;@]|$|\s#)")
        .expect("a constant pattern")
});

pub(super) fn find(source: &ScannedFile<'_>, files: &[SkillFile]) -> Vec<Finding> {
    let name = source.file_name();
    if is_requirements(name) {
        return requirements(source);
    }
    if name == "package.json" {
        return package_json(source);
    }
    if source.kind != TextKind::Code {
        return Vec::new();
    }
    match name.rsplit_once('.').map(|(_, extension)| extension) {
        Some("py") => imports(source, files, &PYTHON_IMPORT, PYTHON_MODULES),
        Some("js" | "mjs" | "cjs" | "ts") => imports(source, files, &NODE_IMPORT, NPM),
        _ => Vec::new(),
    }
}

fn requirements(source: &ScannedFile<'_>) -> Vec<Finding> {
    let named = |(number, line): (u32, &str)| {
        let name = REQUIREMENT.captures(line)?.get(1)?.as_str();
        // pip treats these spellings as the same name.
        let name = name.to_ascii_lowercase().replace(['_', '.'], "-");
        Some(
            find_known_squat(&name)
                .or_else(|| check_similarity(&name, PYPI))?
                .at(source.path, number),
        )
    };
    source.lines().filter_map(named).collect()
}

fn package_json(source: &ScannedFile<'_>) -> Vec<Finding> {
    let Ok(package) = serde_json::from_str::<Value>(source.text) else { return Vec::new() };
    let groups = ["dependencies", "devDependencies", "optionalDependencies", "peerDependencies"];
    let names = groups
        .into_iter()
        .filter_map(|group| package[group].as_object())
        .flat_map(|group| group.keys());
    let named = |name: &String| {
        let at = source.text.find(&format!("\"{name}\"")).unwrap_or(0);
        Some(
            find_known_squat(name)
                .or_else(|| check_similarity(name, NPM))?
                .at(source.path, source.line_of(at)),
        )
    };
    names.filter_map(named).collect()
}

fn imports(
    source: &ScannedFile<'_>,
    files: &[SkillFile],
    pattern: &Regex,
    popular: &[&str],
) -> Vec<Finding> {
    let named = |found: regex::Captures<'_>| {
        let module = found.get(1)?;
        let runs = source.severity_at(module.start(), Severity::Warning).is_some();
        let name = module.as_str();
        let finding = check_similarity(name, popular).filter(|_| runs && !is_own(name, files))?;
        Some(finding.at(source.path, source.line_of(module.start())))
    };
    pattern.captures_iter(source.text).filter_map(named).collect()
}

/// Whether the skill itself has a module of this name.
fn is_own(module: &str, files: &[SkillFile]) -> bool {
    let is_module = |part: &str| part.split('.').next() == Some(module);
    files.iter().any(|file| file.path.split('/').any(is_module))
}

fn find_known_squat(name: &str) -> Option<Finding> {
    let (_, meant) = SQUATS.iter().find(|(squat, _)| *squat == name)?;
    let message =
        format!("`{}` is known for imitating `{meant}`; use the real one", printable(name));
    Some(Finding::new("typosquat", Severity::Error, message))
}

fn check_similarity(name: &str, popular: &[&str]) -> Option<Finding> {
    if popular.contains(&name) || UNRELATED.contains(&name) {
        return None;
    }
    let meant = popular
        .iter()
        .find(|meant| meant.len() >= MIN_NAME_CHARS && is_one_edit_apart(name, meant))?;
    let message = format!(
        "`{}` is one typing error away from the popular `{meant}`; check that it is intended",
        printable(name)
    );
    Some(Finding::new("typosquat", Severity::Warning, message))
}

/// Whether one letter was changed, omitted, inserted, or swapped with its neighbour.
fn is_one_edit_apart(name: &str, meant: &str) -> bool {
    let (a, b) = (name.as_bytes(), meant.as_bytes());
    if a.len().abs_diff(b.len()) > 1 || a == b {
        return false;
    }
    let same = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let (a, b) = (&a[same..], &b[same..]);
    match (a, b) {
        ([_, a @ ..], [_, b @ ..]) if a == b => true,
        ([a1, a2, a @ ..], [b1, b2, b @ ..]) if a1 == b2 && a2 == b1 && a == b => true,
        ([_, a @ ..], b) if a == b => true,
        (a, [_, b @ ..]) if a == b => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_edit_is_detected() {
        for edit in
            ["reqests", "requestss", "reqeusts", "requezts", "equests", "request", "xrequests"]
        {
            assert!(is_one_edit_apart(edit, "requests"), "{edit}");
        }
        for other in ["requests", "reqsts", "qreuetss", "", "quests", "requests22"] {
            assert!(!is_one_edit_apart(other, "requests"), "{other}");
        }
    }

    /// Otherwise a popular name that is similar to another would be reported or not depending on
    /// the order of the list.
    #[test]
    fn popular_names_are_never_reported() {
        for list in [PYPI, NPM, PYTHON_MODULES] {
            for name in list {
                assert!(
                    check_similarity(name, list).is_none() && find_known_squat(name).is_none(),
                    "{name}"
                );
            }
        }
    }
}
