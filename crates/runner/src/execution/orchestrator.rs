//! Calls the six steps in order and decides what follows from each attempt at an execution.
//!
//! Two entrances lead to one path. `run_accepted` has a request that this process accepted just
//! now, and inserts its row while the sandbox starts; `run_claimed` has a row that it claimed from
//! the queue. From there on `run_attempt` carries both.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sandbox::{Guest, Outcome};
use store::{Execution, Idempotency, Lease};
use tokio::sync::OwnedSemaphorePermit;

use super::accept::{AcceptedRequest, NotInserted, StoredRequestError, insert_running};
use super::collect::{Collected, collect};
use super::completed::CompletedExecution;
use super::detail::Timings;
use super::load::{Loaded, load};
use super::plan::{Plan, plan_run};
use super::record::{AttemptResult, Recorded, record};
use super::run::{OutputSink, launch, run};
use super::stop::Stop;
use crate::RunError;
use crate::artifacts::Artifacts;
use crate::failpoint::{Point, reach};
use crate::queue::leases::{Hold, StopReason};
use crate::retry::retry_transient;
use crate::runner::Runner;
use admission::Permit;
use admission::WithPermit;

/// Pause before an execution that could not start is requeued. The slot stays taken meanwhile, so
/// a worker that cannot start anything does not turn the whole queue into failures.
const REQUEUE_DELAY: Duration = Duration::from_secs(1);
/// How long to wait for an engine or an API server that does not answer: about as long as a
/// restart takes at most. Then the attempt has failed.
const SANDBOX_RECOVERY_TIMEOUT: Duration = Duration::from_secs(60);

/// How this process came by an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// It accepted the request itself. The row was inserted as started, because the job is sent
    /// without another write, and usually without `env`, which is then only in this process.
    Accepted,
    /// It claimed the row from the queue. The row says that nothing was started yet, and holds
    /// everything that is needed to run it.
    Claimed,
}

/// One try at an execution, under a lease of this process.
struct Attempt<'a> {
    hold: Hold,
    origin: Origin,
    /// `None` when the stored request of a claimed row cannot be used.
    accepted: Option<&'a AcceptedRequest>,
    /// The first attempt is 1.
    number: i32,
    timings: Timings,
    began: Instant,
    /// What accepting the request took before `began`.
    accept_time: Duration,
}

/// Loaded, planned, and with a guest that waits for its job.
struct Prepared {
    loaded: Loaded,
    plan: Plan,
    guest: Guest,
    /// Covers the skill, the input, the logs and the output in memory.
    memory: Permit,
}

/// What follows from an attempt.
#[expect(clippy::large_enum_variant, reason = "it lives on the stack, once per attempt")]
enum Decision {
    /// The result is final.
    Record(Collected),
    /// Another attempt may do better. The store has the last word: if it refuses one, this result
    /// is final.
    Requeue(Collected),
    /// Another worker owns the execution by now. This attempt must leave no trace.
    Abandon,
}

/// How an attempt ended.
#[expect(clippy::large_enum_variant, reason = "it lives on the stack, once per attempt")]
enum AttemptEnd {
    Recorded {
        result: AttemptResult,
        memory: Option<Permit>,
    },
    Requeued,
    /// The result is somebody else's to record.
    Abandoned,
}

/// Whether the guest of an attempt may have received its job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Job {
    NotSent,
    MaybeSent,
}

/// Runs a request that was accepted just now and returns its result.
pub async fn run_accepted(
    runner: Arc<Runner>,
    accepted: AcceptedRequest,
    idempotency: Option<Idempotency>,
    accept_time: Duration,
    slot: Option<OwnedSemaphorePermit>,
) -> Result<WithPermit<CompletedExecution>, RunError> {
    let began = Instant::now();
    let mut timings = Timings { accept_ms: millis(accept_time), ..Timings::default() };
    let (hold, prepared) =
        match insert_and_prepare(&runner, &accepted, idempotency, &mut timings).await {
            Ok(inserted) => inserted,
            Err(NotInserted::Repeated(earlier)) => {
                drop(slot);
                return runner.wait_for_repeated(*earlier).await;
            }
            Err(NotInserted::Failed(error)) => return Err(error),
        };
    let attempt = Attempt {
        hold,
        origin: Origin::Accepted,
        accepted: Some(&accepted),
        number: 1,
        timings,
        began,
        accept_time,
    };
    let end = run_attempt(&runner, attempt, prepared).await?;
    // The next execution may start while this result is sent.
    drop(slot);
    match end {
        AttemptEnd::Recorded { result, memory } => {
            Ok(with_remaining_permit(result.into_completed(accepted), memory))
        }
        // Another worker finishes it, or this one later. The caller waits for that result.
        AttemptEnd::Requeued | AttemptEnd::Abandoned => {
            let ended = runner.wait(&accepted.tenant, accepted.id).await?;
            Ok(ended.map(CompletedExecution::from))
        }
    }
}

/// Runs an execution that was claimed from the queue. No caller waits for it here.
pub async fn run_claimed(
    runner: Arc<Runner>,
    row: Execution,
    lease: Lease,
    slot: OwnedSemaphorePermit,
) {
    let began = Instant::now();
    // `None` when this very lease is already in use here: the attempt under it goes on.
    let Some(hold) = runner.leases.hold(lease) else { return };
    let mut timings = Timings::default();
    let accepted = AcceptedRequest::from_row(&row, &runner.config.env_key);
    let prepared = match &accepted {
        Ok(accepted) => prepare(&runner, accepted, Origin::Claimed, &mut timings).await,
        Err(error) => {
            tracing::error!(execution_id = %row.id, %error, "a queued execution cannot be run");
            Err(unusable_request(error))
        }
    };
    let attempt = Attempt {
        hold,
        origin: Origin::Claimed,
        accepted: accepted.as_ref().ok(),
        number: row.attempt,
        timings,
        began,
        accept_time: Duration::ZERO,
    };
    match run_attempt(&runner, attempt, prepared).await {
        // The queue was notified by the write that requeued it.
        Ok(AttemptEnd::Requeued) => return,
        Ok(AttemptEnd::Recorded { .. } | AttemptEnd::Abandoned) => {}
        Err(error) => {
            tracing::error!(execution_id = %row.id, %error, "a result could not be recorded");
        }
    }
    drop(slot);
    // The tenant may have been at its limit of running executions, and its next one was passed
    // over when this slot was last free.
    runner.queued.notify_one();
}

/// Accept's insert and the steps up to a waiting guest.
///
/// The row is written while the sandbox starts: both take about as long, and neither needs the
/// other. A request that may repeat an earlier one is inserted first, because a repetition must
/// not cost a sandbox.
async fn insert_and_prepare(
    runner: &Runner,
    accepted: &AcceptedRequest,
    idempotency: Option<Idempotency>,
    timings: &mut Timings,
) -> Result<(Hold, Result<Prepared, Stop>), NotInserted> {
    if idempotency.is_some() {
        let hold = insert_running(runner, accepted, idempotency).await?;
        return Ok((hold, prepare(runner, accepted, Origin::Accepted, timings).await));
    }
    let insert = insert_running(runner, accepted, None);
    match tokio::join!(insert, prepare(runner, accepted, Origin::Accepted, timings)) {
        (Ok(hold), prepared) => Ok((hold, prepared)),
        (Err(not_inserted), prepared) => {
            // Without a row there is no execution, so nothing may run.
            if let Ok(prepared) = prepared {
                prepared.guest.discard().await;
            }
            Err(not_inserted)
        }
    }
}

/// Load, plan, and the first half of run. A refusal in here costs no sandbox.
async fn prepare(
    runner: &Runner,
    accepted: &AcceptedRequest,
    origin: Origin,
    timings: &mut Timings,
) -> Result<Prepared, Stop> {
    let loaded = load(runner, accepted, origin, &mut timings.load_ms).await?;
    let plan = plan_run(runner, accepted, &loaded.skill).await?;
    let (guest, memory) =
        launch(runner, accepted, &loaded.skill, &plan, &mut timings.launch_ms).await?;
    reach(Point::Launch);
    Ok(Prepared { loaded, plan, guest, memory })
}

/// The path of every attempt, from its preparation to the effect of its decision.
async fn run_attempt(
    runner: &Runner,
    mut attempt: Attempt<'_>,
    prepared: Result<Prepared, Stop>,
) -> Result<AttemptEnd, RunError> {
    // Nothing has run, so another attempt is safe for every skill, not only for idempotent ones.
    if let Err(stop) = &prepared
        && stop.retryable
        && attempt.number < runner.config.max_attempts
    {
        back_off(runner, &attempt.hold).await;
        if requeue(runner, &attempt, Job::NotSent).await {
            return Ok(AttemptEnd::Requeued);
        }
    }
    let (decision, memory) = match start(runner, &attempt, prepared).await {
        Some(prepared) => {
            let (collected, memory) = run_and_collect(runner, &mut attempt, prepared).await;
            (decide(collected), memory)
        }
        None => (Decision::Abandon, None),
    };
    let collected = match decision {
        Decision::Record(collected) => collected,
        Decision::Requeue(collected) => {
            if requeue(runner, &attempt, Job::MaybeSent).await {
                return Ok(AttemptEnd::Requeued);
            }
            collected
        }
        Decision::Abandon => return Ok(AttemptEnd::Abandoned),
    };
    let mut result = AttemptResult::new(collected, attempt.elapsed());
    match record_and_notify(runner, attempt, &mut result).await? {
        Recorded::Committed => Ok(AttemptEnd::Recorded { result, memory }),
        Recorded::Fenced => Ok(AttemptEnd::Abandoned),
    }
}

/// A lost run may be tried again; every other outcome is the skill's own or a refusal, and another
/// attempt would end the same way.
fn decide(collected: Collected) -> Decision {
    match collected.outcome {
        Outcome::Lost => Decision::Requeue(collected),
        Outcome::Exited
        | Outcome::TimedOut
        | Outcome::OutOfMemory
        | Outcome::TooManyProcesses
        | Outcome::DiskFull
        | Outcome::OutputTooLarge
        | Outcome::Cancelled
        | Outcome::Refused => Decision::Record(collected),
    }
}

/// Gives the preparation back if this attempt may go on; `None` when its lease is lost, and then
/// its guest is gone.
async fn start(
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
async fn run_and_collect(
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
async fn back_off(runner: &Runner, hold: &Hold) {
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
async fn requeue(runner: &Runner, attempt: &Attempt<'_>, job: Job) -> bool {
    let (lease, max_attempts) = (attempt.hold.lease(), runner.config.max_attempts);
    let requeued = match (attempt.origin, job, attempt.accepted) {
        // The row says that the job was started, and lacks `env`. Only this process knows better
        // and has the secrets, so it writes both.
        (Origin::Accepted, Job::NotSent, Some(accepted)) => {
            let request = accepted.to_stored_request(Some(&runner.config.env_key));
            runner.store.requeue_unsent(lease, &request, max_attempts).await
        }
        // The row itself says whether another attempt is safe.
        (Origin::Accepted | Origin::Claimed, Job::NotSent | Job::MaybeSent, _) => {
            runner.store.requeue(lease, max_attempts).await
        }
    };
    requeued
        .inspect_err(|error| tracing::warn!(%error, "requeueing an execution failed"))
        .unwrap_or(false)
}

/// Record, and wake the waiters. The lease ends with this.
async fn record_and_notify(
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

impl Attempt<'_> {
    /// Since the request came in, or since the claim.
    fn elapsed(&self) -> Duration {
        self.accept_time + self.began.elapsed()
    }
}

/// What the caller learns about a row that cannot be run.
fn unusable_request(error: &StoredRequestError) -> Stop {
    Stop::lost(match error {
        StoredRequestError::Unreadable(_) => "The stored request could not be read.",
        StoredRequestError::Env(_) => {
            "The stored env could not be decrypted: the server's secret was changed, or the row was. Send the request again."
        }
    })
}

/// A result with as much of the run's memory permit as it still needs until it is sent.
fn with_remaining_permit(
    completed: CompletedExecution,
    memory: Option<Permit>,
) -> WithPermit<CompletedExecution> {
    // What did not run has no documents worth counting.
    let Some(mut permit) = memory else { return WithPermit::without_permit(completed) };
    permit.shrink_to(completed.buffered_bytes());
    WithPermit::new(completed, permit)
}

/// Runs a step and notes how long it took.
pub async fn timed<T>(elapsed_ms: &mut f64, step: impl Future<Output = T>) -> T {
    let began = Instant::now();
    let value = step.await;
    *elapsed_ms = millis(began.elapsed());
    value
}

/// Milliseconds with three decimals.
fn millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}
