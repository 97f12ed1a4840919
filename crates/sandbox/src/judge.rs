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
/// 1. A script that reached its own end with 0 succeeded, whatever limits it met on the way, unless
///   its
///    output document is too large to keep.
/// 2. A script that we stopped, by deadline or request, before it ended with a code of its own was
///   ended by us.
///    So a fork bomb that spins at its process limit until the deadline timed out: nothing else ended it.
/// 3. What failed after the kernel killed a process for memory failed for memory: nothing is more
///   violent, and
///    a shell whose child was killed reports it as an ordinary code.
/// 4. Then a refused fork, then a full disk, then a too large output, in the order in which one
///   causes the next.
/// 5. A script that failed without any of these failed by itself.
/// 6. A guest that went away, or did not come to the end of collecting, without any of these is
///   lost.
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

/// What is taken as counted: what the host's side saw itself, and where it saw less, what the guest
/// says of its own control group. A container's host sees only whether memory ran out; a native one
/// counts everything itself. The guest's word is good for naming a failure and for what a run cost;
/// it never makes a success of one.
pub fn counted(by_host: &Counters, by_guest: Option<Counters>) -> Counters {
    let by_guest = by_guest.unwrap_or_default();
    Counters {
        cpu_micros: by_host.cpu_micros.max(by_guest.cpu_micros),
        peak_memory_bytes: by_host.peak_memory_bytes.max(by_guest.peak_memory_bytes),
        oom_kills: by_host.oom_kills.max(by_guest.oom_kills),
        forks_refused: by_host.forks_refused.max(by_guest.forks_refused),
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

#[cfg(test)]
mod tests {
    use guest::protocol::ExitReport;

    use super::*;

    /// A run that came to its end with this status.
    fn exited(status: ExitStatus) -> Heard {
        let exit = ExitReport { status, disk_full: false, log_bytes_dropped: 0, counted: None };
        Heard { started: true, exit: Some(exit), done: true, ..Heard::default() }
    }

    fn code(code: i32) -> Heard {
        exited(ExitStatus::Code(code))
    }

    fn killed() -> Heard {
        exited(ExitStatus::Signal(libc::SIGKILL))
    }

    fn vanished() -> Heard {
        Heard { started: true, ..Heard::default() }
    }

    fn with_full_disk(mut heard: Heard) -> Heard {
        heard.exit = heard.exit.map(|exit| ExitReport { disk_full: true, ..exit });
        heard
    }

    fn with_large_output(heard: Heard) -> Heard {
        Heard { output_too_large: true, ..heard }
    }

    fn cut_short(heard: Heard) -> Heard {
        Heard { done: false, ..heard }
    }

    #[test]
    fn every_end_has_its_cause() {
        use Ended::*;
        use Outcome::*;
        let nothing = Counters::default();
        let oom = Counters { oom_kills: 1, ..nothing };
        let forks = Counters { forks_refused: 9, ..nothing };
        let both = Counters { oom_kills: 1, forks_refused: 9, ..nothing };
        let table = [
            // The script's own end.
            (ByItself, code(0), nothing, Exited),
            (ByItself, code(3), nothing, Exited),
            (ByItself, killed(), nothing, Exited),
            (ByItself, exited(ExitStatus::NotStarted(2)), nothing, Exited),
            // Limits that a script met and survived.
            (ByItself, code(0), both, Exited),
            (ByItself, with_full_disk(code(0)), nothing, Exited),
            (ByItself, with_large_output(code(0)), nothing, OutputTooLarge),
            // Limits that it did not survive, the most violent first.
            (ByItself, killed(), oom, OutOfMemory),
            (ByItself, code(137), oom, OutOfMemory),
            (ByItself, with_full_disk(code(1)), both, OutOfMemory),
            (ByItself, with_full_disk(code(1)), forks, TooManyProcesses),
            (ByItself, with_large_output(with_full_disk(code(1))), nothing, DiskFull),
            (ByItself, with_large_output(code(1)), nothing, OutputTooLarge),
            (ByItself, exited(ExitStatus::NotStarted(libc::EAGAIN)), forks, TooManyProcesses),
            // Our own hand.
            (Deadline, killed(), nothing, TimedOut),
            (Deadline, killed(), both, TimedOut),
            (Deadline, with_full_disk(killed()), forks, TimedOut),
            (Deadline, vanished(), nothing, TimedOut),
            (Deadline, vanished(), oom, TimedOut),
            (Deadline, cut_short(killed()), nothing, TimedOut),
            (Request, killed(), oom, Cancelled),
            (Request, vanished(), nothing, Cancelled),
            (Request, Heard::default(), nothing, Cancelled),
            // It ended by itself in the moment that we stopped it.
            (Deadline, code(0), nothing, Exited),
            (Deadline, code(1), forks, TooManyProcesses),
            (Request, code(0), nothing, Exited),
            // A guest that went away.
            (ByItself, vanished(), nothing, Lost),
            (ByItself, vanished(), forks, Lost),
            (ByItself, vanished(), oom, OutOfMemory),
            (ByItself, cut_short(code(0)), nothing, Lost),
            (ByItself, cut_short(code(0)), oom, OutOfMemory),
            // A job that never started.
            (ByItself, Heard { no_room: true, ..Heard::default() }, nothing, DiskFull),
            (ByItself, Heard::default(), oom, OutOfMemory),
        ];
        for (ended, heard, counters, expected) in table {
            assert_eq!(
                judge(ended, &heard, &counters),
                expected,
                "{ended:?} {heard:?} {counters:?}"
            );
        }
    }

    #[test]
    fn a_guests_word_names_a_failure_and_makes_no_success() {
        let by_host = Counters { cpu_micros: 7, ..Counters::default() };
        let by_guest = Counters { oom_kills: 1, peak_memory_bytes: 5, ..Counters::default() };
        assert_eq!(counted(&by_host, None), by_host);
        let both = counted(&by_host, Some(by_guest));
        assert_eq!(both, Counters { cpu_micros: 7, ..by_guest });
        assert_eq!(judge(Ended::ByItself, &code(1), &both), Outcome::OutOfMemory);
        assert_eq!(judge(Ended::Deadline, &killed(), &both), Outcome::TimedOut);
        // Silence does not take back what the host saw.
        let seen = counted(&by_guest, Some(Counters::default()));
        assert_eq!(judge(Ended::ByItself, &vanished(), &seen), Outcome::OutOfMemory);
    }

    #[test]
    fn exit_codes_are_those_of_a_shell() {
        let table = [
            (ExitStatus::Code(3), 3),
            (ExitStatus::Signal(libc::SIGKILL), 137),
            (ExitStatus::NotStarted(libc::ENOENT), 127),
            (ExitStatus::NotStarted(libc::EACCES), 126),
        ];
        for (status, expected) in table {
            assert_eq!(exit_code(status), expected);
        }
    }
}
