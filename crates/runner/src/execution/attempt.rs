//! One attempt at an execution: what it knows, and the actions of which the orchestrator composes
//! it.

use std::time::{Duration, Instant};

use admission::Permit;
use sandbox::{Guest, Outcome};

use super::accept::AcceptedRequest;
use super::collect::{Collected, collect};
use super::detail::Timings;
use super::load::Loaded;
use super::plan::Plan;
use super::record::{AttemptResult, Recorded, record};
use super::run::{OutputSink, run};
use super::stop::Stop;
use super::timing::timed;
use crate::RunError;
use crate::artifacts::Artifacts;
use crate::failpoint::{Point, reach};
use crate::queue::leases::{Hold, StopReason};
use crate::retry::retry_transient;
use crate::runner::Runner;

/// Pause before an execution that could not start is requeued. The slot stays taken meanwhile, so
/// a worker that cannot start anything does not turn the whole queue into failures.
const REQUEUE_DELAY: Duration = Duration::from_secs(1);
/// How long to wait for an engine or an API server that does not answer: about as long as a
/// restart takes at most. Then the attempt has failed.
const SANDBOX_RECOVERY_TIMEOUT: Duration = Duration::from_secs(60);

/// How this process came by an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// It accepted the request itself. The row was inserted as started, because the job is sent
    /// without another write, and usually without `env`, which is then only in this process.
    Accepted,
    /// It claimed the row from the queue. The row says that nothing was started yet, and holds
    /// everything that is needed to run it.
    Claimed,
}

/// One try at an execution, under a lease of this process.
pub(super) struct Attempt<'a> {
    pub hold: Hold,
    origin: Origin,
    /// `None` when the stored request of a claimed row cannot be used.
    accepted: Option<&'a AcceptedRequest>,
    /// The first attempt is 1.
    pub number: i32,
    timings: Timings,
    began: Instant,
    /// What accepting the request took before `began`.
    accept_time: Duration,
}

/// Loaded, planned, and with a guest that waits for its job.
pub(super) struct Prepared {
    pub loaded: Loaded,
    pub plan: Plan,
    pub guest: Guest,
    /// Covers the skill, the input, the logs and the output in memory.
    pub memory: Permit,
}

/// Whether the guest of an attempt may have received its job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JobState {
    NotSent,
    MaybeSent,
}

impl<'a> Attempt<'a> {
    /// The first attempt at an execution that this process accepted.
    pub(super) fn of_accepted(
        hold: Hold,
        accepted: &'a AcceptedRequest,
        timings: Timings,
        began: Instant,
        accept_time: Duration,
    ) -> Attempt<'a> {
        let (origin, accepted, number) = (Origin::Accepted, Some(accepted), 1);
        Attempt { hold, origin, accepted, number, timings, began, accept_time }
    }

    /// An attempt at an execution that this process claimed.
    pub(super) fn of_claimed(
        hold: Hold,
        accepted: Option<&'a AcceptedRequest>,
        number: i32,
        timings: Timings,
        began: Instant,
    ) -> Attempt<'a> {
        let (origin, accept_time) = (Origin::Claimed, Duration::ZERO);
        Attempt { hold, origin, accepted, number, timings, began, accept_time }
    }

    /// Since the request came in, or since the claim.
    pub(super) fn elapsed(&self) -> Duration {
        self.accept_time + self.began.elapsed()
    }
}

/// Gives the preparation back if this attempt may go on; `None` when its lease is lost, and then
/// its guest is gone.
pub(super) async fn start(
    runner: &Runner,
    attempt: &Attempt<'_>,
    prepared: Result<Prepared, Stop>,
) -> Option<Result<Prepared, Stop>> {
    match attempt.origin {
        // The row was inserted as started.
        Origin::Accepted => return Some(prepared),
        Origin::Claimed => {}
    }
    // From this write on only an idempotent skill is retried: the job may act as soon as it is
    // sent, so the row must say so before.
    let hold = &attempt.hold;
    let marked = retry_transient("marking a start", || runner.store.mark_started(hold.lease()))
        .await
        .map(|retried| retried.value);
    if let Ok(Some(requests)) = &marked {
        // A cancel between the claim and the hold found no run here to stop.
        hold.apply(*requests);
    }
    // Without the mark a job must not be sent. A stop is recorded in any case: the record itself
    // checks the lease.
    let may_go_on = matches!(marked, Ok(Some(_))) || prepared.is_err();
    if may_go_on && !hold.is_lost() {
        return Some(prepared);
    }
    if let Ok(prepared) = prepared {
        let execution_id = hold.lease().execution_id;
        tracing::warn!(%execution_id, ?marked, "an execution lost its lease before it started");
        runner.meters.leases_lost.add();
        prepared.guest.discard().await;
    }
    None
}

/// The second half of run, and collect.
pub(super) async fn run_and_collect(
    runner: &Runner,
    attempt: &mut Attempt<'_>,
    prepared: Result<Prepared, Stop>,
) -> (Collected, Option<Permit>) {
    let Attempt { hold, timings, .. } = attempt;
    let (mut collected, memory) = match prepared {
        Err(stop) => (Collected::stopped(stop), None),
        Ok(Prepared { loaded, plan, guest, memory }) => {
            let artifacts = Artifacts::new(runner.blobs.clone(), hold.lease());
            let mut output = OutputSink::new(&plan.job, artifacts);
            let ran = run(runner, hold, guest, &plan.job, &mut output, &mut timings.run_ms).await;
            reach(Point::Run);
            let tenant = &hold.lease().tenant;
            let collecting = collect(runner, tenant, ran, output, loaded, &plan);
            (timed(&mut timings.collect_ms, collecting).await, Some(memory))
        }
    };
    // A run that the shutdown stopped was not cancelled by its caller.
    if collected.outcome == Outcome::Cancelled && hold.stop_reason() == Some(StopReason::Shutdown) {
        collected.outcome = Outcome::Lost;
        collected.error = Some("The server shut down before the script ended.".to_owned());
    }
    collected.detail.timings = *timings;
    (collected, memory)
}

/// Waits until the cause of a failed start may have passed, but not through a cancel or a
/// shutdown: both need the execution back in the queue now.
pub(super) async fn back_off(runner: &Runner, hold: &Hold) {
    let stopped = hold.stop_token();
    let recovered = async {
        tokio::time::sleep(REQUEUE_DELAY).await;
        let _ =
            tokio::time::timeout(SANDBOX_RECOVERY_TIMEOUT, runner.wait_until_sandbox_works()).await;
    };
    tokio::select! {
        () = recovered => {}
        () = stopped.cancelled() => {}
        () = runner.closing.cancelled() => {}
    }
}

/// Queues the execution for another attempt. False when the store refuses: the lease is lost, the
/// execution is cancelled, it was tried often enough, or its job may have acted and the skill is
/// not idempotent.
pub(super) async fn requeue(runner: &Runner, attempt: &Attempt<'_>, job: JobState) -> bool {
    let (lease, max_attempts) = (attempt.hold.lease(), runner.config.max_attempts);
    let requeued = match (attempt.origin, job, attempt.accepted) {
        // The row says that the job was started, and lacks `env`. Only this process knows better
        // and has the secrets, so it writes both.
        (Origin::Accepted, JobState::NotSent, Some(accepted)) => {
            let request = accepted.to_stored_request(Some(&runner.config.env_key));
            runner.store.requeue_unsent(lease, &request, max_attempts).await
        }
        // The row itself says whether another attempt is safe.
        (Origin::Accepted | Origin::Claimed, JobState::NotSent | JobState::MaybeSent, _) => {
            runner.store.requeue(lease, max_attempts).await
        }
    };
    requeued
        .inspect_err(|error| tracing::warn!(%error, "requeueing an execution failed"))
        .unwrap_or(false)
}

/// Record, and wake the waiters. The lease ends with this.
pub(super) async fn record_and_notify(
    runner: &Runner,
    attempt: Attempt<'_>,
    result: &mut AttemptResult,
) -> Result<Recorded, RunError> {
    reach(Point::Collect);
    let Attempt { hold, accepted, .. } = attempt;
    let recorded = record(runner, hold.lease(), accepted, result).await?;
    reach(Point::Record);
    match recorded {
        Recorded::Committed => runner.meters.count_recorded(result.row()),
        Recorded::Fenced => runner.meters.leases_lost.add(),
    }
    runner.notify_ended(hold.lease().execution_id);
    Ok(recorded)
}
