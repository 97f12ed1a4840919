//! Findings as SARIF 2.1.0, in the part of it that GitHub's code scanning reads.

use std::path::{Component, Path, PathBuf};

use serde_json::{Value, json};
use skill::{Finding, Profile, RULES, SCAN_RULES, Severity};

use super::lint::Checked;

/// One log with one run: every rule the profile knows, those of the scanner, and a result for each
/// finding.
pub fn document(checked: &[Checked], profile: Profile) -> Value {
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
    let results: Vec<Value> = checked
        .iter()
        .flat_map(|skill| {
            let place = Place::of(&skill.path);
            skill.findings.iter().map(move |finding| result(finding, &place)).collect::<Vec<_>>()
        })
        .collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {"name": "skillbox", "version": env!("CARGO_PKG_VERSION"), "rules": rules}},
            "automationDetails": {"id": format!("skillbox/{profile}/")},
            "results": results,
        }],
    })
}

fn result(finding: &Finding, place: &Place) -> Value {
    let (uri, line, message) = place.locate(finding);
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

/// Where a skill lies, as seen from the directory the check runs in, which is the repository's
/// root.
enum Place {
    Directory(PathBuf),
    /// Nothing inside a zip can be pointed at, so its findings stand at the zip and name the file
    /// in words.
    Zip(PathBuf),
}

impl Place {
    fn of(path: &Path) -> Self {
        let seen = std::env::current_dir()
            .ok()
            .and_then(|here| Some(path.strip_prefix(here).ok()?.to_owned()));
        let seen = seen.unwrap_or_else(|| path.to_owned());
        if !path.is_dir() {
            return Self::Zip(seen);
        }
        Self::Directory(wrapper(path).map_or(seen.clone(), |wrapper| seen.join(wrapper)))
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

/// The single directory that everything lies in, when the skill does not begin at the top.
fn wrapper(directory: &Path) -> Option<PathBuf> {
    let entries: Vec<_> = std::fs::read_dir(directory).ok()?.filter_map(Result::ok).collect();
    let [only] = entries.as_slice() else { return None };
    only.path().is_dir().then(|| PathBuf::from(only.file_name()))
}

/// A path as a URI: relative ones stay relative, and every odd byte is escaped.
fn uri(path: &Path) -> String {
    let parts = path.components().filter_map(|component| match component {
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
        Component::ParentDir => Some("..".to_owned()),
        Component::Normal(part) => Some(escaped(&part.to_string_lossy())),
    });
    let joined = parts.collect::<Vec<_>>().join("/");
    if path.is_absolute() { format!("file:///{joined}") } else { joined }
}

fn escaped(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        odd => format!("%{odd:02X}"),
    };
    text.bytes().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_become_uris_that_lead_nowhere_else() {
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
