//! Writes findings as SARIF 2.1.0, the subset that GitHub's code scanning reads.

use std::path::{Component, Path, PathBuf};

use serde_json::{Value, json};
use skill::{Finding, Profile, RULES, SCAN_RULES, Severity};

use super::lint::LintResult;

/// A log with one run: all rules of the profile and of the scanner, and one result per finding.
pub(super) fn document(results: &[LintResult], profile: Profile) -> Value {
    let rules: Vec<Value> = RULES
        .iter()
        .chain(SCAN_RULES)
        .filter_map(|rule| {
            let level = level(rule.severity(profile)?);
            Some(json!({
                "id": rule.code,
                "shortDescription": {"text": rule.help},
                "fullDescription": {"text": rule.help},
                "help": {"text": rule.help},
                "defaultConfiguration": {"level": level},
                "properties": {"tags": ["agent-skill"]},
            }))
        })
        .collect();
    let findings: Vec<Value> = results
        .iter()
        .flat_map(|skill| {
            let location = SkillPath::new(&skill.path);
            skill.findings.iter().map(move |finding| result(finding, &location)).collect::<Vec<_>>()
        })
        .collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {"name": "skillbox", "version": env!("CARGO_PKG_VERSION"), "rules": rules}},
            "automationDetails": {"id": format!("skillbox/{profile}/")},
            "results": findings,
        }],
    })
}

fn result(finding: &Finding, location: &SkillPath) -> Value {
    let (uri, line, message) = location.locate(finding);
    json!({
        "ruleId": finding.code,
        "level": level(finding.severity),
        "message": {"text": message},
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": uri}, "region": {"startLine": line}}}],
    })
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info => "note",
    }
}

/// The path of a skill relative to the working directory, which is the root of the repository when
/// code scanning runs.
enum SkillPath {
    Directory(PathBuf),
    /// SARIF cannot refer to files inside a zip. Their findings refer to the zip, and the message
    /// contains the name of the file.
    Zip(PathBuf),
}

impl SkillPath {
    fn new(path: &Path) -> Self {
        let relative = std::env::current_dir()
            .ok()
            .and_then(|current| Some(path.strip_prefix(current).ok()?.to_owned()));
        let relative = relative.unwrap_or_else(|| path.to_owned());
        if !path.is_dir() {
            return Self::Zip(relative);
        }
        Self::Directory(
            wrapper_directory(path).map_or(relative.clone(), |wrapper| relative.join(wrapper)),
        )
    }

    fn locate(&self, finding: &Finding) -> (String, u32, String) {
        match self {
            Self::Directory(root) => {
                let file = finding.path.as_deref().unwrap_or("SKILL.md");
                (uri(&root.join(file)), finding.line.unwrap_or(1), finding.message.clone())
            }
            Self::Zip(zip) => (uri(zip), 1, finding.to_string()),
        }
    }
}

/// The only directory in the given one, for a skill that is wrapped in another directory.
fn wrapper_directory(directory: &Path) -> Option<PathBuf> {
    let entries: Vec<_> = std::fs::read_dir(directory).ok()?.filter_map(Result::ok).collect();
    let [only] = entries.as_slice() else { return None };
    only.path().is_dir().then(|| PathBuf::from(only.file_name()))
}

/// Converts a path to a URI. Relative paths stay relative, and reserved bytes are escaped.
fn uri(path: &Path) -> String {
    let parts = path.components().filter_map(|component| match component {
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
        Component::ParentDir => Some("..".to_owned()),
        Component::Normal(part) => Some(percent_encode(&part.to_string_lossy())),
    });
    let joined = parts.collect::<Vec<_>>().join("/");
    if path.is_absolute() { format!("file:///{joined}") } else { joined }
}

fn percent_encode(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        reserved => format!("%{reserved:02X}"),
    };
    text.bytes().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_escaped_in_uris() {
        for (path, expected) in [
            ("skills/a b/SKILL.md", "skills/a%20b/SKILL.md"),
            ("./x/./größe%.md", "x/gr%C3%B6%C3%9Fe%25.md"),
            ("../up/SKILL.md", "../up/SKILL.md"),
            ("/abs/a:b", "file:///abs/a%3Ab"),
        ] {
            assert_eq!(uri(Path::new(path)), expected);
        }
    }
}
