//! A guest: a started sandbox that waits for its one job.

use std::time::Duration;

use async_trait::async_trait;
use guest::jail::Counters;
use guest::protocol::{FromGuest, Measurements};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use crate::classify;
use crate::delivery;
use crate::guest_error::GuestError;
use crate::isolation::{Control, Isolation};
use crate::job::{Job, Sink};
use crate::launcher::{LaunchError, Shape};
use crate::outcome::{Outcome, RunReport, RunUsage};
use crate::supervisor::{SupervisedRun, Supervisor};
use crate::wire::{self, Receiver, Sender};

/// How long to wait for the removal of a killed sandbox. If the kernel is stuck, a process may
/// never end.
const REMOVE_TIMEOUT: Duration = Duration::from_secs(30);

/// A backend's control over one sandbox.
#[async_trait]
pub trait GuestHandle: Send {
    /// Kills every process of the sandbox. Idempotent; has no effect on a sandbox that has ended.
    fn kill(&mut self);

    /// Waits until the sandbox is removed; returns the kernel's counters.
    async fn wait_until_removed(&mut self) -> Counters;

    /// The external cause of the sandbox's end, if the backend knows one. Valid after
    /// `wait_until_removed`.
    fn external_end(&self) -> Option<ExternalEnd> {
        None
    }
}

/// The end of a sandbox by an external cause, as its backend observed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExternalEnd {
    /// The outcome of a run that was interrupted by it.
    pub outcome: Outcome,
    /// A clause for the caller, such as "its node was lost".
    pub cause: Option<&'static str>,
}

/// A started sandbox that is ready for its one job. Dropping it kills the sandbox.
pub struct Guest {
    receiver: Receiver,
    sender: Sender,
    sandbox: SandboxGuard,
    shape: Shape,
    isolation: Isolation,
    /// The guest observes its script's connect attempts.
    observes_connects: bool,
}

impl Guest {
    /// Waits until the guest on `stream` is ready. `describe` turns its measurements, which were
    /// taken before any job was sent, into the controls in force; the launcher adds what it
    /// enforces from outside.
    pub async fn connect(
        stream: impl AsyncRead + AsyncWrite + Send + 'static,
        handle: Box<dyn GuestHandle>,
        shape: Shape,
        timeout: Duration,
        describe: impl FnOnce(&Measurements<'_>) -> Isolation + Send,
    ) -> Result<Guest, GuestError> {
        let (mut receiver, sender) = wire::split(stream);
        let sandbox = SandboxGuard(handle);
        let ready = tokio::time::timeout(timeout, wait_until_ready(&mut receiver, describe)).await;
        match ready.unwrap_or(Err(GuestError::NotReady(timeout))) {
            Ok((isolation, observes_connects)) => {
                Ok(Guest { receiver, sender, sandbox, shape, isolation, observes_connects })
            }
            Err(error) => {
                sandbox.kill_and_wait().await;
                Err(error)
            }
        }
    }

    /// The controls in force in this sandbox.
    pub fn isolation(&self) -> &Isolation {
        &self.isolation
    }

    /// Returns this guest if all `controls` are in force; otherwise discards it.
    pub async fn require_controls(self, controls: &[Control]) -> Result<Guest, LaunchError> {
        match self.isolation.check(controls) {
            Ok(()) => Ok(self),
            Err(error) => {
                self.discard().await;
                Err(error)
            }
        }
    }

    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Runs the job: sends the files, runs the script, collects the results. Always kills and
    /// removes the sandbox, whatever the result: a sandbox that has run a script is never used
    /// again.
    pub async fn run(
        mut self,
        job: &Job,
        stop: CancellationToken,
        sink: &mut dyn Sink,
    ) -> Result<RunReport, GuestError> {
        let supervised = match delivery::validate(job) {
            Ok(()) => {
                let stream = (&mut self.receiver, &mut self.sender);
                Supervisor::new(stream, job, &stop, sink).run().await
            }
            Err(reason) => Err(GuestError::Job(reason)),
        };
        // Before any error is returned.
        let (counters, external_end) = self.sandbox.kill_and_wait().await;
        let isolation = (self.isolation, self.observes_connects);
        run_report(supervised?, (&counters, external_end), job, isolation)
    }

    /// Kills the guest without using it and waits until it is removed.
    pub async fn discard(self) {
        self.sandbox.kill_and_wait().await;
    }
}

/// Receives the first message of a guest, the only one before its job.
async fn wait_until_ready(
    receiver: &mut Receiver,
    describe: impl FnOnce(&Measurements<'_>) -> Isolation,
) -> Result<(Isolation, bool), GuestError> {
    let frame = receiver.next().await?.ok_or(GuestError::Disconnected)?;
    match receiver.message(frame)? {
        FromGuest::Ready(measured) => Ok((describe(&measured), measured.observes_connects)),
        FromGuest::Failed { step, errno } => Err(GuestError::setup(step, errno)),
        _ => Err(GuestError::Violation("a message before it was ready".into())),
    }
}

/// Combines the guest's report, the kernel's counters and the external cause into one report.
fn run_report(
    supervised: SupervisedRun,
    (counters, external_end): (&Counters, Option<ExternalEnd>),
    job: &Job,
    (isolation, observes_connects): (Isolation, bool),
) -> Result<RunReport, GuestError> {
    let SupervisedRun { stop_reason, report, startup_time, wall_time } = supervised;
    let counters = &classify::merge_counters(counters, report.exit.and_then(|exit| exit.counters));
    let known_end = external_end.filter(|end| end.cause.is_some() || end.outcome != Outcome::Lost);
    // A guest that disconnected without any message and without a known cause never ran anything:
    // this is an error, on which the caller may retry, and not a lost run.
    let sent_nothing = !report.started && !report.job_too_large && report.exit.is_none();
    let unexplained = stop_reason == classify::StopReason::NotStopped
        && counters.oom_kills == 0
        && known_end.is_none();
    if sent_nothing && unexplained {
        return Err(GuestError::Disconnected);
    }
    // An external cause explains a lost run only: a run that came to its own end keeps its outcome.
    let (outcome, cause) = match (classify::classify(stop_reason, &report, counters), known_end) {
        (Outcome::Lost, Some(end)) => (end.outcome, end.cause),
        (outcome, _) => (outcome, None),
    };
    Ok(RunReport {
        outcome,
        cause,
        exit_code: report.exit.map(|exit| classify::shell_exit_code(exit.status)),
        output: report.output,
        skipped: report.skipped,
        usage: RunUsage {
            wall_ms: wall_time.as_millis() as u64,
            cpu_ms: counters.cpu_micros / 1000,
            peak_memory_bytes: counters.peak_memory_bytes,
            bytes_in: delivery::input_bytes(job),
            bytes_out: report.bytes_out,
        },
        logs_truncated: report.exit.is_some_and(|exit| exit.log_bytes_dropped > 0),
        connect_attempts: observes_connects.then_some(report.connect_attempts),
        isolation,
        startup_time,
    })
}

/// Kills the sandbox when dropped, so that no code path leaves one running.
struct SandboxGuard(Box<dyn GuestHandle>);

impl SandboxGuard {
    async fn kill_and_wait(mut self) -> (Counters, Option<ExternalEnd>) {
        self.0.kill();
        let removed = tokio::time::timeout(REMOVE_TIMEOUT, self.0.wait_until_removed()).await;
        let counters = removed.unwrap_or_else(|_| {
            tracing::error!(
                "a killed sandbox was not removed within {} s",
                REMOVE_TIMEOUT.as_secs()
            );
            Counters::default()
        });
        (counters, self.0.external_end())
    }
}

impl Drop for SandboxGuard {
    fn drop(&mut self) {
        self.0.kill();
    }
}

#[cfg(test)]
#[path = "guest_tests.rs"]
mod tests;
