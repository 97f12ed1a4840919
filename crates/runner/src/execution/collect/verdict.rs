//! What a run's outcome means to its caller: the sentence in `error`, and the status. Pure.

use sandbox::{Outcome, RunReport};
use skill::format_duration;
use store::Status;

use crate::execution::plan::Plan;

/// The error as one sentence for the caller; `None` if the script succeeded.
pub(crate) fn error_text(ran: &RunReport, plan: &Plan) -> Option<String> {
    let shape = &plan.shape;
    Some(match (ran.outcome, ran.exit_code) {
        (Outcome::Exited, Some(0)) => return None,
        (Outcome::Exited, Some(code)) => format!("The script exited with code {code}."),
        (Outcome::Exited, None) => "The script could not be started.".to_owned(),
        (Outcome::TimedOut, _) => {
            let timeout_ms = u64::try_from(plan.job.timeout.as_millis()).unwrap_or(u64::MAX);
            format!("The script ran longer than its timeout of {}.", format_duration(timeout_ms))
        }
        (Outcome::OutOfMemory, _) => {
            format!("The script used more memory than its limit of {} bytes.", shape.memory_bytes)
        }
        (Outcome::TooManyProcesses, _) => {
            format!(
                "The script started more processes and threads than its limit of {}.",
                shape.pids
            )
        }
        (Outcome::DiskFull, _) => {
            format!(
                "The script filled its disk of {} bytes or {} files.",
                shape.disk_bytes, shape.disk_inodes
            )
        }
        (Outcome::OutputTooLarge, _) => {
            format!(
                "The script's output.json is larger than its limit of {} bytes.",
                plan.job.output_limits.output_bytes
            )
        }
        (Outcome::Cancelled, _) => "The execution was cancelled.".to_owned(),
        (Outcome::Refused, _) => "The execution was refused.".to_owned(),
        (Outcome::Lost, _) => match ran.cause {
            Some(because) => format!("The sandbox went away before the script ended: {because}."),
            None => "The sandbox went away before the script ended.".to_owned(),
        },
    })
}

/// Success is a script that exited with code 0 and has no problem with its output.
pub(crate) fn status(outcome: Outcome, exit_code: Option<i32>, error: Option<&str>) -> Status {
    match outcome {
        Outcome::Exited if exit_code == Some(0) && error.is_none() => Status::Success,
        Outcome::TimedOut => Status::Timeout,
        Outcome::Cancelled => Status::Cancelled,
        Outcome::Exited
        | Outcome::OutOfMemory
        | Outcome::TooManyProcesses
        | Outcome::DiskFull
        | Outcome::OutputTooLarge
        | Outcome::Refused
        | Outcome::Lost => Status::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_exit_code_0_without_an_error_is_success() {
        assert_eq!(status(Outcome::Exited, Some(0), None), Status::Success);
        assert_eq!(status(Outcome::Exited, Some(0), Some("output")), Status::Failed);
        assert_eq!(status(Outcome::Exited, Some(1), None), Status::Failed);
        assert_eq!(status(Outcome::Exited, None, None), Status::Failed);
        for outcome in Outcome::ALL.into_iter().filter(|outcome| *outcome != Outcome::Exited) {
            let expected = match outcome {
                Outcome::TimedOut => Status::Timeout,
                Outcome::Cancelled => Status::Cancelled,
                _ => Status::Failed,
            };
            assert_eq!(status(outcome, Some(0), None), expected, "{outcome}");
        }
    }
}
