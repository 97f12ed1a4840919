//! Signs of malice and of accidents in the files of a skill: what a careful reviewer would stop at.
//!
//! Pure and bounded: looks at bytes, runs nothing, asks nobody. Precise rather than loud: an error is something that no
//! honest skill contains, a warning is worth a look, and what merely could be used for harm is no finding at all.
//! A scanner is no sandbox: whoever knows its rules gets past them.

mod hidden;
mod install;
mod instructions;
mod patterns;
mod popular;
mod secrets;
mod source;
mod theft;
mod typosquats;

use crate::{Finding, Severity, SkillFile};
use source::{Kind, Source};

/// How much of one file is looked at, and of all of them.
const MOST_FILE_BYTES: usize = 2 << 20;
const MOST_BYTES: usize = 16 << 20;
/// More of the same in one file says nothing new.
const MOST_OF_ONE_KIND: usize = 5;
const MOST_FINDINGS: usize = 200;

/// Everything worth a reviewer's look, in the order of paths and lines.
pub fn scan(files: &[SkillFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut left = MOST_BYTES;
    for file in files {
        findings.extend(hidden::name(&file.path));
        if Kind::is_program(&file.bytes) {
            let message =
                "this is a compiled program, which nobody can review; ship its source or say where it comes from";
            findings.push(Finding::new("native_program", Severity::Warning, message).at(&file.path, None));
            continue;
        }
        let most = MOST_FILE_BYTES.min(left);
        let Some(source) = Source::read(file, most) else { continue };
        left -= source.text.len();
        if source.text.len() < file.bytes.len() {
            let message = format!("the file is too long to be looked at whole; only its first {most} bytes were");
            findings.push(Finding::new("scanned_in_part", Severity::Warning, message).at(&file.path, None));
        }
        let mut found = look(&source, files);
        found.sort_by(|a, b| (a.line, a.severity, a.code).cmp(&(b.line, b.severity, b.code)));
        found.dedup_by(|a, b| (a.line, a.code) == (b.line, b.code));
        findings.extend(few_of_each(found));
    }
    findings.truncate(MOST_FINDINGS);
    findings
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
    let mut kept: Vec<Finding> = Vec::new();
    for finding in findings {
        if kept.iter().filter(|other| other.code == finding.code).count() < MOST_OF_ONE_KIND {
            kept.push(finding);
        }
    }
    kept
}
