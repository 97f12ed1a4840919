//! What becomes of an upload in which the scanner found something. Pure: the verdict was looked up before.

use skill::{Finding, Severity};
use store::{ScanPolicy, SkillStatus, Verdict};

use crate::RunError;

/// The state in which a skill with these findings of the scanner is stored, unless it is refused. Only errors count: a
/// warning is worth a look, not a stop. Somebody's word on exactly this content comes before any rule.
pub(crate) fn decide(
    policy: ScanPolicy,
    scanned: &[Finding],
    verdict: Option<Verdict>,
) -> Result<SkillStatus, RunError> {
    match verdict {
        Some(Verdict::Rejected) => return Err(RunError::Rejected),
        Some(Verdict::Approved) => return Ok(SkillStatus::Available),
        None => {}
    }
    if !scanned.iter().any(|finding| finding.severity == Severity::Error) {
        return Ok(SkillStatus::Available);
    }
    match policy {
        ScanPolicy::Off | ScanPolicy::Report => Ok(SkillStatus::Available),
        ScanPolicy::Review => Ok(SkillStatus::Review),
        ScanPolicy::Block => Err(RunError::ScanRefused(scanned.to_vec())),
    }
}

/// Why a skill in this state does not run, if it does not.
pub(crate) fn refusal(status: SkillStatus, name: &str, version: &str) -> Option<String> {
    match status {
        SkillStatus::Available => None,
        SkillStatus::Review => {
            Some(format!("Skill {name} version {version} is held for review and does not run until it is approved."))
        }
        SkillStatus::Rejected => Some(format!("Skill {name} version {version} was rejected by a reviewer.")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(severity: Severity) -> Finding {
        Finding { code: "miner", severity, path: None, line: None, message: String::new() }
    }

    #[test]
    fn errors_are_held_or_refused_and_a_verdict_comes_first() {
        use SkillStatus::{Available, Review};
        let (error, warning) = ([found(Severity::Error)], [found(Severity::Warning)]);
        for (policy, with_error) in [
            (ScanPolicy::Off, Some(Available)),
            (ScanPolicy::Report, Some(Available)),
            (ScanPolicy::Review, Some(Review)),
            (ScanPolicy::Block, None),
        ] {
            assert_eq!(decide(policy, &error, None).ok(), with_error, "{policy}");
            assert_eq!(decide(policy, &warning, None).ok(), Some(Available), "{policy}");
            assert_eq!(decide(policy, &error, Some(Verdict::Approved)).ok(), Some(Available), "{policy}");
            assert!(matches!(decide(policy, &[], Some(Verdict::Rejected)), Err(RunError::Rejected)), "{policy}");
        }
    }
}
