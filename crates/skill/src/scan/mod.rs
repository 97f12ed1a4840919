//! The scanner: signs of malice and of accidents in the files of a skill.
//!
//! Pure and bounded: it reads bytes, runs nothing and makes no requests. Precise rather than loud:
//! an error is something that no legitimate skill contains, a warning deserves a review, and code
//! that merely could be misused is not reported. A scanner does not replace the sandbox: an
//! attacker who knows its rules can evade them.

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

/// How much of one file is scanned, and of all files together.
const MAX_FILE_BYTES: usize = 2 << 20;
const MAX_TOTAL_BYTES: usize = 16 << 20;
/// Further findings with the same code in one file add no information.
const MAX_FINDINGS_PER_CODE: usize = 5;
const MAX_FINDINGS: usize = 200;

/// The findings of all files, in the order of paths and lines. The entrypoint counts as a script,
/// whatever the name of its file.
pub fn scan(files: &[SkillFile], entrypoint: Option<&SkillScript>) -> Vec<Finding> {
    let is_entrypoint =
        |file: &SkillFile| entrypoint.is_some_and(|script| script.path == file.path);
    let runs = |at: &usize| is_entrypoint(&files[*at]) || detect_language(&files[*at]).is_some();
    // Scripts are scanned first, so that other files cannot use up the total budget.
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
    /// The rest of the total budget.
    remaining_bytes: usize,
}

impl Scanner<'_> {
    fn scan_file(&mut self, file: &SkillFile, runs: bool) -> Vec<Finding> {
        let mut findings = Vec::from_iter(hidden::check_file_name(&file.path));
        if TextKind::is_program(&file.bytes) {
            let message = "this is a compiled program, which cannot be reviewed; include its source or say where it comes from";
            findings.push(
                Finding::new("native_program", Severity::Warning, message).at(&file.path, None),
            );
            // An interpreter runs such a file in spite of its first bytes, so it is scanned too.
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

/// A part of a script that was not scanned can contain anything, so this is an error for scripts.
fn partial_scan_finding(max_bytes: usize, runs: bool) -> Finding {
    let mut message = format!(
        "the file is too long to be scanned completely; only its first {max_bytes} bytes were"
    );
    if !runs {
        return Finding::new("scanned_in_part", Severity::Warning, message);
    }
    message.push_str(", and it can run; split it, or request a review");
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

/// The findings for which `keep` returns true, in their order. `keep` sees more severe ones first,
/// so that no number of warnings displaces an error.
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
