//! Signs of malice and of accidents in the files of a skill: what a careful reviewer would stop at.
//!
//! Pure and bounded: looks at bytes, runs nothing, asks nobody. Precise rather than loud: an error
//! is something that no honest skill contains, a warning is worth a look, and what merely could be
//! used for harm is no finding at all. A scanner is no sandbox: whoever knows its rules gets past
//! them.

mod codes;
mod credential_theft;
mod hidden;
mod install;
mod instructions;
mod patterns;
mod popular;
mod secrets;
mod source;
mod typosquats;

use std::collections::HashMap;

use crate::script::{SkillScript, detect_language};
use crate::{Finding, Severity, SkillFile};
pub use codes::SCAN_RULES;
use source::{ScannedFile, TextKind};

/// How much of one file is looked at, and of all of them.
const MAX_FILE_BYTES: usize = 2 << 20;
const MAX_TOTAL_BYTES: usize = 16 << 20;
/// More of the same in one file says nothing new.
const MAX_FINDINGS_PER_CODE: usize = 5;
const MAX_FINDINGS: usize = 200;

/// Everything worth a reviewer's look, in the order of paths and lines. The entrypoint runs
/// whatever its file is called.
pub fn scan(files: &[SkillFile], entrypoint: Option<&SkillScript>) -> Vec<Finding> {
    let is_entrypoint =
        |file: &SkillFile| entrypoint.is_some_and(|script| script.path == file.path);
    let runs = |at: &usize| is_entrypoint(&files[*at]) || detect_language(&files[*at]).is_some();
    // What runs is looked at first, so that nothing else uses up what is looked at in all.
    let (running, others): (Vec<usize>, Vec<usize>) = (0..files.len()).partition(runs);
    let mut scanner = Scanner { files, remaining_bytes: MAX_TOTAL_BYTES };
    let mut found = vec![Vec::new(); files.len()];
    for (order, runs) in [(running, true), (others, false)] {
        for at in order {
            found[at] = scanner.scan_file(&files[at], runs);
        }
    }
    let mut count = 0;
    keep_most_severe(found.concat(), |_| {
        count += 1;
        count <= MAX_FINDINGS
    })
}

struct Scanner<'a> {
    files: &'a [SkillFile],
    /// How many bytes may still be looked at.
    remaining_bytes: usize,
}

impl Scanner<'_> {
    fn scan_file(&mut self, file: &SkillFile, runs: bool) -> Vec<Finding> {
        let mut findings = Vec::from_iter(hidden::check_file_name(&file.path));
        if TextKind::is_program(&file.bytes) {
            let message = "this is a compiled program, which nobody can review; ship its source or say where it comes from";
            findings.push(
                Finding::new("native_program", Severity::Warning, message).at(&file.path, None),
            );
            // An interpreter that is handed the file does not care what its first bytes look like.
            if !runs {
                return findings;
            }
        }
        let max_bytes = MAX_FILE_BYTES.min(self.remaining_bytes);
        let start = &file.bytes[..file.bytes.len().min(max_bytes)];
        let Some((text, kind)) = source::read(&file.path, start, runs) else { return findings };
        self.remaining_bytes -= start.len();
        if start.len() < file.bytes.len() {
            findings.push(partial_scan_finding(max_bytes, runs).at(&file.path, None));
        }
        let mut found = run_rules(&ScannedFile::new(&file.path, &text, kind), self.files);
        if runs && kind != TextKind::Code {
            found.extend(run_rules(
                &ScannedFile::new(&file.path, &text, TextKind::Code),
                self.files,
            ));
        }
        found.sort_by(|a, b| (a.line, a.code, a.severity).cmp(&(b.line, b.code, b.severity)));
        found.dedup_by(|a, b| (a.line, a.code) == (b.line, b.code));
        found.sort_by_key(|finding| (finding.line, finding.severity));
        findings.extend(limit_per_code(found));
        findings
    }
}

/// What runs and was not looked at could be anything, so it does not pass for clean.
fn partial_scan_finding(max_bytes: usize, runs: bool) -> Finding {
    let mut message = format!(
        "the file is too long to be looked at whole; only its first {max_bytes} bytes were"
    );
    if !runs {
        return Finding::new("scanned_in_part", Severity::Warning, message);
    }
    message.push_str(", and it can run; split it, or let somebody review it");
    Finding::new("scanned_in_part", Severity::Error, message)
}

fn run_rules(source: &ScannedFile<'_>, files: &[SkillFile]) -> Vec<Finding> {
    let mut findings = hidden::check_text(source);
    findings.extend(secrets::find(source));
    findings.extend(patterns::find(source));
    findings.extend(credential_theft::find(source));
    findings.extend(install::find(source));
    findings.extend(typosquats::find(source, files));
    findings.extend(instructions::find(source));
    findings
}

fn limit_per_code(findings: Vec<Finding>) -> Vec<Finding> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    keep_most_severe(findings, |finding| {
        let count = counts.entry(finding.code).or_default();
        *count += 1;
        *count <= MAX_FINDINGS_PER_CODE
    })
}

/// Those that `keep` wants, in the order they have. The graver ones are offered first, so that no
/// number of warnings pushes out an error.
fn keep_most_severe(
    findings: Vec<Finding>,
    mut keep: impl FnMut(&Finding) -> bool,
) -> Vec<Finding> {
    let mut ranked: Vec<(usize, Finding)> = findings.into_iter().enumerate().collect();
    ranked.sort_by_key(|(_, finding)| finding.severity);
    ranked.retain(|(_, finding)| keep(finding));
    ranked.sort_by_key(|(at, _)| *at);
    ranked.into_iter().map(|(_, finding)| finding).collect()
}
