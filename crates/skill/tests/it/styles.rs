//! Skills in the styles that are seen in public, each with what becomes of it: the same whichever
//! way it arrives.

mod foreign;
mod odd;
mod plain;
mod refused;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use language::Language;
use proptest::prelude::*;
use skill::{Package, PackageLimits, Profile, SkillError};
use tempfile::TempDir;

use crate::support::*;

/// One directory and the verdict about it.
pub(crate) struct Case {
    id: String,
    what: &'static str,
    /// The name of the directory it lies in; without one the files bring their own.
    directory: Option<String>,
    files: Vec<(&'static str, Vec<u8>)>,
    verdict: Verdict,
}

enum Verdict {
    /// The codes of the refusal, with their lines.
    Refused(&'static str),
    Accepted {
        name: String,
        description: String,
        entrypoint: Option<(&'static str, Language)>,
        /// By profile, in the order of [`Profile::ALL`]: codes with the lines they stand at.
        findings: [&'static str; 4],
    },
}

pub(crate) fn case(id: &str, what: &'static str) -> Case {
    let verdict = Verdict::Refused("no verdict");
    Case { id: id.to_owned(), what, directory: Some(id.to_owned()), files: Vec::new(), verdict }
}

impl Case {
    pub(crate) fn in_directory(mut self, name: &str) -> Self {
        self.directory = Some(name.to_owned());
        self
    }

    pub(crate) fn in_no_directory(mut self) -> Self {
        self.directory = None;
        self
    }

    pub(crate) fn file(mut self, path: &'static str, content: impl AsRef<[u8]>) -> Self {
        self.files.push((path, content.as_ref().to_vec()));
        self
    }

    pub(crate) fn accepted(mut self, name: &str, description: &str) -> Self {
        let (name, description) = (name.to_owned(), description.to_owned());
        self.verdict = Verdict::Accepted { name, description, entrypoint: None, findings: [""; 4] };
        self
    }

    pub(crate) fn runs(mut self, path: &'static str, lang: Language) -> Self {
        if let Verdict::Accepted { entrypoint, .. } = &mut self.verdict {
            *entrypoint = Some((path, lang));
        }
        self
    }

    pub(crate) fn finds(mut self, by_profile: [&'static str; 4]) -> Self {
        if let Verdict::Accepted { findings, .. } = &mut self.verdict {
            *findings = by_profile;
        }
        self
    }

    pub(crate) fn refused(mut self, codes: &'static str) -> Self {
        self.verdict = Verdict::Refused(codes);
        self
    }

    /// Where a file lies in an archive.
    fn packed_path(&self, path: &str) -> String {
        self.directory.as_ref().map_or(path.to_owned(), |directory| format!("{directory}/{path}"))
    }

    fn parts(&self) -> Result<Package, SkillError> {
        let parts = self
            .files
            .iter()
            .map(|(path, content)| (self.packed_path(path), content.clone()))
            .collect();
        skill::read_parts(parts, &PackageLimits::default())
    }

    fn zipped(&self) -> Result<Package, SkillError> {
        let entry = |(path, content): &(&str, Vec<u8>)| {
            let mode = if content.starts_with(b"#!") { 0o100_755 } else { 0o100_644 };
            deflated(&self.packed_path(path), content).with(|entry| entry.mode = mode)
        };
        read(&zip(&self.files.iter().map(entry).collect::<Vec<_>>()))
    }

    fn on_disk(&self) -> Result<Package, SkillError> {
        let home = TempDir::new().unwrap();
        let root = self
            .directory
            .as_ref()
            .map_or(home.path().to_owned(), |directory| home.path().join(directory));
        for (path, content) in &self.files {
            let place = root.join(path);
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            fs::write(&place, content).unwrap();
            let mode = if content.starts_with(b"#!") { 0o755 } else { 0o644 };
            fs::set_permissions(place, Permissions::from_mode(mode)).unwrap();
        }
        skill::read_directory(&root, &PackageLimits::default())
    }

    /// What is wrong with what a reader made of it.
    fn complaints(&self, read: &Result<Package, SkillError>, has_junk: bool) -> Vec<String> {
        let mut complaints = Vec::new();
        let mut expect = |what: &str, found: String, expected: String| {
            if found != expected {
                complaints
                    .push(format!("{}: {what}: found {found:?}, expected {expected:?}", self.id));
            }
        };
        match (read, &self.verdict) {
            (Err(error), Verdict::Refused(codes)) => {
                expect("refusal", shown(&error.findings()), (*codes).to_owned())
            }
            (Err(error), Verdict::Accepted { .. }) => {
                expect("refusal", error.to_string(), "none".to_owned())
            }
            (Ok(package), Verdict::Refused(codes)) => {
                expect("name", package.manifest.name.clone(), (*codes).to_owned())
            }
            (Ok(package), Verdict::Accepted { name, description, entrypoint, findings }) => {
                expect("name", package.manifest.name.clone(), name.clone());
                expect("description", package.manifest.description.clone(), description.clone());
                let found =
                    package.entrypoint.as_ref().map(|script| (script.path.as_str(), script.lang));
                expect("entrypoint", format!("{found:?}"), format!("{entrypoint:?}"));
                for (profile, expected) in Profile::ALL.into_iter().zip(findings) {
                    // A directory on disk is not told about its desktop's files.
                    let expected = if has_junk {
                        (*expected).to_owned()
                    } else {
                        expected.replace(" junk_dropped", "")
                    };
                    expect(
                        profile.as_str(),
                        shown(&package.findings_for(profile)),
                        expected.trim().to_owned(),
                    );
                }
            }
        }
        complaints
    }
}

/// `code@line` of each, in order.
fn shown(findings: &[skill::Finding]) -> String {
    let one = |finding: &skill::Finding| {
        let line = finding.line.map(|line| format!("@{line}")).unwrap_or_default();
        format!("{}{line}", finding.code)
    };
    findings.iter().map(one).collect::<Vec<_>>().join(" ")
}

fn all() -> Vec<Case> {
    [plain::cases(), odd::cases(), foreign::cases(), refused::cases()]
        .into_iter()
        .flatten()
        .collect()
}

#[test]
fn every_reader_gives_the_expected_result() {
    let cases = all();
    assert!(cases.len() >= 60, "{}", cases.len());
    let mut complaints = Vec::new();
    for case in &cases {
        assert!(!case.what.is_empty());
        let (parts, zipped, on_disk) = (case.parts(), case.zipped(), case.on_disk());
        complaints.extend(case.complaints(&parts, true));
        complaints.extend(case.complaints(&zipped, true));
        complaints.extend(case.complaints(&on_disk, false));
        if let (Ok(parts), Ok(zipped), Ok(on_disk)) = (parts, zipped, on_disk) {
            assert_eq!(parts.digest, zipped.digest, "{}", case.id);
            assert_eq!(parts.digest, on_disk.digest, "{}", case.id);
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// Ids name the cases in messages, so they stand once.
#[test]
fn case_ids_are_unique() {
    let mut ids: Vec<String> = all().into_iter().map(|case| case.id).collect();
    let count = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), count);
}

/// A change to a manifest: bytes cut out, doubled, replaced or put in.
fn mutate(text: &mut Vec<u8>, (at, length, kind, with): (usize, usize, u8, Vec<u8>)) {
    let at = at % (text.len() + 1);
    let end = (at + length).min(text.len());
    match kind % 4 {
        0 => drop(text.drain(at..end)),
        1 => {
            let piece = text[at..end].to_vec();
            text.splice(at..at, piece);
        }
        2 => drop(text.splice(at..end, with)),
        _ => drop(text.splice(at..at, with)),
    }
}

fn change() -> impl Strategy<Value = (usize, usize, u8, Vec<u8>)> {
    let words = prop::sample::select(
        [
            "\n", "---\n", ": ", "- ", "&a ", "*a", "!!t ", "|\n  ", "\"", "'", "{", "[", "#",
            "\t", "\u{feff}", "<<: ", "? ", "\r",
        ]
        .map(|word| word.as_bytes().to_vec())
        .to_vec(),
    );
    let bytes = prop::collection::vec(any::<u8>(), 0..6);
    (any::<usize>(), 0usize..40, any::<u8>(), prop_oneof![words, bytes])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is written, reading ends with a skill or with findings that say where.
    #[test]
    fn mutants_never_panic(which in any::<prop::sample::Index>(), changes in prop::collection::vec(change(), 1..5)) {
        let mut cases = all();
        let mut case = cases.swap_remove(which.index(cases.len()));
        let manifests = ["SKILL.md", "skillsandbox.yaml", "manifest.yaml"];
        for (_, content) in case.files.iter_mut().filter(|(path, _)| manifests.contains(path)) {
            for change in changes.clone() {
                mutate(content, change);
            }
        }
        check(case.parts())?;
    }

    #[test]
    fn arbitrary_text_never_panics(text in "\\PC{0,200}", more in "(?s).{0,200}") {
        for text in [format!("---\n{text}\n---\n{more}"), format!("---\nname: x\ndescription: {text}\n{more}\n---\n"), more] {
            check(read_parts(&[("SKILL.md", &text)]))?;
            check(read_parts(&[("SKILL.md", SKILL_MD), ("skillsandbox.yaml", &text), ("main.py", &text)]))?;
            check(read_parts(&[("manifest.yaml", &text), ("skill.py", "def execute(self, params):\n")]))?;
        }
    }
}

/// Every finding of an outcome can be shown to a user.
fn check(read: Result<Package, SkillError>) -> Result<(), TestCaseError> {
    let findings = match &read {
        Ok(package) => Profile::ALL.map(|profile| package.findings_for(profile)).concat(),
        Err(error) => error.findings(),
    };
    prop_assert!(read.is_ok() || !findings.is_empty());
    for finding in findings {
        prop_assert!(
            skill::RULES.iter().any(|rule| rule.code == finding.code),
            "{finding:?} has no rule"
        );
        prop_assert!(
            !finding.message.is_empty() && !finding.message.chars().any(|c| c.is_control()),
            "{finding:?}"
        );
        prop_assert!(
            finding.line.is_none_or(|line| line > 0) && finding.message.len() < 2_000,
            "{finding:?}"
        );
    }
    Ok(())
}
