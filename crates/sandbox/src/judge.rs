//! From what was seen to the one true cause of a run's end.

use guest::jail::Counters;
use guest::protocol::ExitStatus;

use crate::conversation::Heard;
use crate::outcome::Outcome;

/// Why the host ended a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The script or the guest ended by itself.
    ByItself,
    /// The deadline passed.
    Deadline,
    /// Somebody asked for it.
    Request,
}

/// Names the cause. The rules, the first that applies:
///
/// 0. A job that did not fit into the sandbox met the disk limit before it started.
/// 1. A script that reached its own end with 0 succeeded, whatever limits it met on the way, unless its
///    output document is too large to keep.
/// 2. A script that we stopped, by deadline or request, before it ended with a code of its own was ended by us.
///    So a fork bomb that spins at its process limit until the deadline timed out: nothing else ended it.
/// 3. What failed after the kernel killed a process for memory failed for memory: nothing is more violent, and
///    a shell whose child was killed reports it as an ordinary code.
/// 4. Then a refused fork, then a full disk, then a too large output, in the order in which one causes the next.
/// 5. A script that failed without any of these failed by itself.
/// 6. A guest that went away, or did not come to the end of collecting, without any of these is lost.
pub fn judge(ended: Ended, heard: &Heard, counters: &Counters) -> Outcome {
    if heard.no_room {
        return Outcome::DiskFull;
    }
    let code = match heard.exit.map(|exit| exit.status) {
        Some(ExitStatus::Code(code)) => Some(code),
        _ => None,
    };
    if code == Some(0) && heard.done {
        return if heard.output_too_large { Outcome::OutputTooLarge } else { Outcome::Exited };
    }
    match ended {
        Ended::Deadline if code.is_none() => return Outcome::TimedOut,
        Ended::Request if code.is_none() => return Outcome::Cancelled,
        _ => {}
    }
    if counters.oom_kills > 0 {
        return Outcome::OutOfMemory;
    }
    if !heard.done {
        return Outcome::Lost;
    }
    if counters.forks_refused > 0 {
        Outcome::TooManyProcesses
    } else if heard.exit.is_some_and(|exit| exit.disk_full) {
        Outcome::DiskFull
    } else if heard.output_too_large {
        Outcome::OutputTooLarge
    } else {
        Outcome::Exited
    }
}

/// The code a shell would report.
pub fn exit_code(status: ExitStatus) -> i32 {
    match status {
        ExitStatus::Code(code) => code,
        ExitStatus::Signal(signal) => 128 + signal,
        ExitStatus::NotStarted(libc::ENOENT) => 127,
        ExitStatus::NotStarted(_) => 126,
    }
}
