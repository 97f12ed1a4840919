//! Signs of malice and of accidents in the files of a skill: what a careful reviewer would stop at.
//!
//! Pure and bounded: looks at bytes, runs nothing, asks nobody. Precise rather than loud: an error
//! is something that no honest skill contains, a warning is worth a look, and what merely could be
//! used for harm is no finding at all. A scanner is no sandbox: whoever knows its rules gets past
//! them.

mod codes;
mod hidden;
mod install;
mod instructions;
mod patterns;
mod popular;
mod secrets;
mod source;
mod theft;
mod typosquats;

use std::collections::HashMap;

use crate::script::{Script, detect_language};
use crate::{Finding, Severity, SkillFile};
pub use codes::SCAN_RULES;
use source::{Kind, Source};

/// How much of one file is looked at, and of all of them.
const MOST_FILE_BYTES: usize = 2 << 20;
const MOST_BYTES: usize = 16 << 20;
/// More of the same in one file says nothing new.
const MOST_OF_ONE_KIND: usize = 5;
const MOST_FINDINGS: usize = 200;

/// Everything worth a reviewer's look, in the order of paths and lines. The entrypoint runs
/// whatever its file is called.
pub fn scan(files: &[SkillFile], entrypoint: Option<&Script>) -> Vec<Finding> {
    let is_entrypoint =
        |file: &SkillFile| entrypoint.is_some_and(|script| script.path == file.path);
    let runs = |at: &usize| is_entrypoint(&files[*at]) || detect_language(&files[*at]).is_some();
    // What runs is looked at first, so that nothing else uses up what is looked at in all.
    let (running, others): (Vec<usize>, Vec<usize>) = (0..files.len()).partition(runs);
    let mut scanner = Scanner { files, left: MOST_BYTES };
    let mut found = vec![Vec::new(); files.len()];
    for (order, runs) in [(running, true), (others, false)] {
        for at in order {
            found[at] = scanner.file(&files[at], runs);
        }
    }
    let mut count = 0;
    gravest(found.concat(), |_| {
        count += 1;
        count <= MOST_FINDINGS
    })
}

struct Scanner<'a> {
    files: &'a [SkillFile],
    /// How many bytes may still be looked at.
    left: usize,
}

impl Scanner<'_> {
    fn file(&mut self, file: &SkillFile, runs: bool) -> Vec<Finding> {
        let mut findings = Vec::from_iter(hidden::name(&file.path));
        if Kind::is_program(&file.bytes) {
            let message = "this is a compiled program, which nobody can review; ship its source or say where it comes from";
            findings.push(
                Finding::new("native_program", Severity::Warning, message).at(&file.path, None),
            );
            // An interpreter that is handed the file does not care what its first bytes look like.
            if !runs {
                return findings;
            }
        }
        let most = MOST_FILE_BYTES.min(self.left);
        let start = &file.bytes[..file.bytes.len().min(most)];
        let Some((text, kind)) = source::read(&file.path, start, runs) else { return findings };
        self.left -= start.len();
        if start.len() < file.bytes.len() {
            findings.push(in_part(most, runs).at(&file.path, None));
        }
        let mut found = look(&Source::new(&file.path, &text, kind), self.files);
        if runs && kind != Kind::Code {
            found.extend(look(&Source::new(&file.path, &text, Kind::Code), self.files));
        }
        found.sort_by(|a, b| (a.line, a.code, a.severity).cmp(&(b.line, b.code, b.severity)));
        found.dedup_by(|a, b| (a.line, a.code) == (b.line, b.code));
        found.sort_by_key(|finding| (finding.line, finding.severity));
        findings.extend(few_of_each(found));
        findings
    }
}

/// What runs and was not looked at could be anything, so it does not pass for clean.
fn in_part(most: usize, runs: bool) -> Finding {
    let mut message =
        format!("the file is too long to be looked at whole; only its first {most} bytes were");
    if !runs {
        return Finding::new("scanned_in_part", Severity::Warning, message);
    }
    message.push_str(", and it can run; split it, or let somebody review it");
    Finding::new("scanned_in_part", Severity::Error, message)
}

fn look(source: &Source<'_>, files: &[SkillFile]) -> Vec<Finding> {
    let mut findings = hidden::text(source);
    findings.extend(secrets::find(source));
    findings.extend(patterns::find(source));
    findings.extend(theft::find(source));
    findings.extend(install::find(source));
    findings.extend(typosquats::find(source, files));
    findings.extend(instructions::find(source));
    findings
}

fn few_of_each(findings: Vec<Finding>) -> Vec<Finding> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    gravest(findings, |finding| {
        let count = counts.entry(finding.code).or_default();
        *count += 1;
        *count <= MOST_OF_ONE_KIND
    })
}

/// Those that `keep` wants, in the order they have. The graver ones are offered first, so that no
/// number of warnings pushes out an error.
fn gravest(findings: Vec<Finding>, mut keep: impl FnMut(&Finding) -> bool) -> Vec<Finding> {
    let mut ranked: Vec<(usize, Finding)> = findings.into_iter().enumerate().collect();
    ranked.sort_by_key(|(_, finding)| finding.severity);
    ranked.retain(|(_, finding)| keep(finding));
    ranked.sort_by_key(|(at, _)| *at);
    ranked.into_iter().map(|(_, finding)| finding).collect()
}
