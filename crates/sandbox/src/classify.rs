//! Classifies the end of a run: from what was observed to one outcome.

use guest::jail::Counters;
use guest::protocol::ExitStatus;

use crate::guest_report::GuestReport;
use crate::outcome::Outcome;

/// Why the host stopped a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopReason {
    /// It did not: the script or the guest ended by itself.
    NotStopped,
    /// The deadline passed.
    Deadline,
    /// The caller cancelled the run.
    Cancelled,
}

/// Decides the outcome. The first rule that applies wins:
///
/// 0. A job that did not fit into the sandbox hit the disk limit before it started.
/// 1. A script that exited with 0 succeeded, whatever limits it hit before, unless its output
///    document is too large to store.
/// 2. A script that we stopped, by deadline or cancellation, before it exited with a code was ended
///    by us. A fork bomb that spins at its process limit until the deadline has therefore timed out:
///    nothing else ended it.
/// 3. A failure after the kernel killed a process for memory is a failure for memory. It precedes
///    the other limits because it is the most violent, and because a shell whose child was killed
///    reports it as an ordinary exit code.
/// 4. Then a rejected fork, then a full disk, then a too large output, in the order in which one
///    causes the next.
/// 5. A script that failed without any of these failed by itself.
/// 6. A guest that disconnected, or did not finish collecting, without any of these is lost.
pub(crate) fn classify(
    stop_reason: StopReason,
    report: &GuestReport,
    counters: &Counters,
) -> Outcome {
    if report.job_too_large {
        return Outcome::DiskFull;
    }
    let code = match report.exit.map(|exit| exit.status) {
        Some(ExitStatus::Code(code)) => Some(code),
        Some(ExitStatus::Signal(_) | ExitStatus::NotStarted(_)) | None => None,
    };
    if code == Some(0) && report.done {
        let too_large = report.output_too_large;
        return if too_large { Outcome::OutputTooLarge } else { Outcome::Exited };
    }
    // A script that exited with a code just before it was stopped ended by itself.
    match stop_reason {
        StopReason::Deadline if code.is_none() => return Outcome::TimedOut,
        StopReason::Cancelled if code.is_none() => return Outcome::Cancelled,
        StopReason::Deadline | StopReason::Cancelled | StopReason::NotStopped => {}
    }
    if counters.oom_kills > 0 {
        return Outcome::OutOfMemory;
    }
    if !report.done {
        return Outcome::Lost;
    }
    if counters.forks_refused > 0 {
        Outcome::TooManyProcesses
    } else if report.exit.is_some_and(|exit| exit.disk_full) {
        Outcome::DiskFull
    } else if report.output_too_large {
        Outcome::OutputTooLarge
    } else {
        Outcome::Exited
    }
}

/// Merges the host's counters with those that the guest reports of its own cgroup; the larger value
/// wins. The host of a container only sees whether memory ran out; a native host counts everything
/// itself. The guest's counters can change the cause of a failure and the resource usage, but never
/// turn a failure into a success.
pub(crate) fn merge_counters(by_host: &Counters, by_guest: Option<Counters>) -> Counters {
    let by_guest = by_guest.unwrap_or_default();
    Counters {
        cpu_micros: by_host.cpu_micros.max(by_guest.cpu_micros),
        peak_memory_bytes: by_host.peak_memory_bytes.max(by_guest.peak_memory_bytes),
        oom_kills: by_host.oom_kills.max(by_guest.oom_kills),
        forks_refused: by_host.forks_refused.max(by_guest.forks_refused),
    }
}

/// The exit code that a shell would report.
pub(crate) fn shell_exit_code(status: ExitStatus) -> i32 {
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

    /// A complete run with this exit status.
    fn exited(status: ExitStatus) -> GuestReport {
        let exit = ExitReport { status, disk_full: false, log_bytes_dropped: 0, counters: None };
        GuestReport { started: true, exit: Some(exit), done: true, ..GuestReport::default() }
    }

    fn code(code: i32) -> GuestReport {
        exited(ExitStatus::Code(code))
    }

    fn killed() -> GuestReport {
        exited(ExitStatus::Signal(libc::SIGKILL))
    }

    fn disconnected() -> GuestReport {
        GuestReport { started: true, ..GuestReport::default() }
    }

    fn with_full_disk(mut report: GuestReport) -> GuestReport {
        report.exit = report.exit.map(|exit| ExitReport { disk_full: true, ..exit });
        report
    }

    fn with_large_output(report: GuestReport) -> GuestReport {
        GuestReport { output_too_large: true, ..report }
    }

    fn incomplete(report: GuestReport) -> GuestReport {
        GuestReport { done: false, ..report }
    }

    #[test]
    fn classifies_every_end() {
        use Outcome::*;
        use StopReason::{Deadline, NotStopped};
        let nothing = Counters::default();
        let oom = Counters { oom_kills: 1, ..nothing };
        let forks = Counters { forks_refused: 9, ..nothing };
        let both = Counters { oom_kills: 1, forks_refused: 9, ..nothing };
        let table = [
            // The script ended by itself.
            (NotStopped, code(0), nothing, Exited),
            (NotStopped, code(3), nothing, Exited),
            (NotStopped, killed(), nothing, Exited),
            (NotStopped, exited(ExitStatus::NotStarted(2)), nothing, Exited),
            // It hit limits and succeeded.
            (NotStopped, code(0), both, Exited),
            (NotStopped, with_full_disk(code(0)), nothing, Exited),
            (NotStopped, with_large_output(code(0)), nothing, OutputTooLarge),
            // It hit limits and failed.
            (NotStopped, killed(), oom, OutOfMemory),
            (NotStopped, code(137), oom, OutOfMemory),
            (NotStopped, with_full_disk(code(1)), both, OutOfMemory),
            (NotStopped, with_full_disk(code(1)), forks, TooManyProcesses),
            (NotStopped, with_large_output(with_full_disk(code(1))), nothing, DiskFull),
            (NotStopped, with_large_output(code(1)), nothing, OutputTooLarge),
            (NotStopped, exited(ExitStatus::NotStarted(libc::EAGAIN)), forks, TooManyProcesses),
            // We stopped it.
            (Deadline, killed(), nothing, TimedOut),
            (Deadline, killed(), both, TimedOut),
            (Deadline, with_full_disk(killed()), forks, TimedOut),
            (Deadline, disconnected(), nothing, TimedOut),
            (Deadline, disconnected(), oom, TimedOut),
            (Deadline, incomplete(killed()), nothing, TimedOut),
            (StopReason::Cancelled, killed(), oom, Cancelled),
            (StopReason::Cancelled, disconnected(), nothing, Cancelled),
            (StopReason::Cancelled, GuestReport::default(), nothing, Cancelled),
            // It ended by itself at the moment when we stopped it.
            (Deadline, code(0), nothing, Exited),
            (Deadline, code(1), forks, TooManyProcesses),
            (StopReason::Cancelled, code(0), nothing, Exited),
            // The guest disconnected.
            (NotStopped, disconnected(), nothing, Lost),
            (NotStopped, disconnected(), forks, Lost),
            (NotStopped, disconnected(), oom, OutOfMemory),
            (NotStopped, incomplete(code(0)), nothing, Lost),
            (NotStopped, incomplete(code(0)), oom, OutOfMemory),
            // The script never started.
            (
                NotStopped,
                GuestReport { job_too_large: true, ..GuestReport::default() },
                nothing,
                DiskFull,
            ),
            (NotStopped, GuestReport::default(), oom, OutOfMemory),
        ];
        for (stop_reason, report, counters, expected) in table {
            assert_eq!(
                classify(stop_reason, &report, &counters),
                expected,
                "{stop_reason:?} {report:?} {counters:?}"
            );
        }
    }

    #[test]
    fn guest_counters_change_the_cause_of_a_failure_but_make_no_success() {
        let by_host = Counters { cpu_micros: 7, ..Counters::default() };
        let by_guest = Counters { oom_kills: 1, peak_memory_bytes: 5, ..Counters::default() };
        assert_eq!(merge_counters(&by_host, None), by_host);
        let both = merge_counters(&by_host, Some(by_guest));
        assert_eq!(both, Counters { cpu_micros: 7, ..by_guest });
        assert_eq!(classify(StopReason::NotStopped, &code(1), &both), Outcome::OutOfMemory);
        assert_eq!(classify(StopReason::Deadline, &killed(), &both), Outcome::TimedOut);
        // A guest that reports nothing does not hide the host's counters.
        let merged = merge_counters(&by_guest, Some(Counters::default()));
        assert_eq!(
            classify(StopReason::NotStopped, &disconnected(), &merged),
            Outcome::OutOfMemory
        );
    }

    #[test]
    fn exit_codes_match_those_of_a_shell() {
        let table = [
            (ExitStatus::Code(3), 3),
            (ExitStatus::Signal(libc::SIGKILL), 137),
            (ExitStatus::NotStarted(libc::ENOENT), 127),
            (ExitStatus::NotStarted(libc::EACCES), 126),
        ];
        for (status, expected) in table {
            assert_eq!(shell_exit_code(status), expected);
        }
    }
}
