//! Calls the six steps in order and acts on the decision after each attempt.
//!
//! Two entrances lead to one path. `run_accepted` has a request that this process has just
//! accepted, and inserts its row while the sandbox starts; `run_claimed` has a row that it claimed
//! from the queue. From there on `run_attempt` runs both.

use std::sync::Arc;
use std::time::{Duration, Instant};

use admission::{Permit, WithPermit};
use store::{Execution, Idempotency, Lease};
use tokio::sync::OwnedSemaphorePermit;

use super::accept::{AcceptedRequest, NotInserted, insert_running};
use super::attempt::{
    Attempt, JobState, Origin, Prepared, back_off, record_and_notify, requeue, run_and_collect,
    start,
};
use super::completed::CompletedExecution;
use super::decision::{Decision, decide};
use super::detail::Timings;
use super::load::load;
use super::plan::plan_run;
use super::record::{AttemptResult, Recorded};
use super::run::launch;
use super::stop::Stop;
use super::timing::millis;
use crate::RunError;
use crate::failpoint::{Point, reach};
use crate::queue::leases::Hold;
use crate::runner::Runner;

/// How an attempt ended.
#[expect(clippy::large_enum_variant, reason = "it lives on the stack, once per attempt")]
enum AttemptEnd {
    Recorded {
        result: AttemptResult,
        memory: Option<Permit>,
    },
    Requeued,
    /// Another worker records the execution.
    Abandoned,
}

/// Runs a request that was accepted just now and returns its result.
pub(super) async fn run_accepted(
    runner: Arc<Runner>,
    accepted: AcceptedRequest,
    idempotency: Option<Idempotency>,
    accept_time: Duration,
    slot: Option<OwnedSemaphorePermit>,
) -> Result<WithPermit<CompletedExecution>, RunError> {
    let began = Instant::now();
    let mut timings = Timings { accept_ms: millis(accept_time), ..Timings::default() };
    let inserted = insert_and_prepare(&runner, &accepted, idempotency, &mut timings).await;
    let (hold, prepared) = match inserted {
        Ok(inserted) => inserted,
        Err(NotInserted::Repeated(earlier)) => {
            drop(slot);
            return runner.wait_for_repeated(*earlier).await;
        }
        Err(NotInserted::Failed(error)) => return Err(error),
    };
    let attempt = Attempt::of_accepted(hold, &accepted, timings, began, accept_time);
    let end = run_attempt(&runner, attempt, prepared).await?;
    // The next execution may start while this result is sent.
    drop(slot);
    match end {
        AttemptEnd::Recorded { result, memory } => {
            Ok(result.into_completed(accepted).with_permit(memory))
        }
        // This or another worker records the execution later. The caller waits for that result.
        AttemptEnd::Requeued | AttemptEnd::Abandoned => {
            let ended = runner.wait(&accepted.tenant, accepted.id).await?;
            Ok(ended.map(CompletedExecution::from))
        }
    }
}

/// Runs an execution that was claimed from the queue. No caller waits for it in this task.
pub(crate) async fn run_claimed(
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
            Err(Stop::from(error))
        }
    };
    let accepted = accepted.as_ref().ok();
    let attempt = Attempt::of_claimed(hold, accepted, row.attempt, timings, began);
    match run_attempt(&runner, attempt, prepared).await {
        // The write that requeued it has notified the queue.
        Ok(AttemptEnd::Requeued) => return,
        Ok(AttemptEnd::Recorded { .. } | AttemptEnd::Abandoned) => {}
        Err(error) => {
            tracing::error!(execution_id = %row.id, %error, "a result could not be recorded");
        }
    }
    drop(slot);
    // The tenant may have been at its limit of running executions, and its next one was passed
    // over when a slot was free.
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
        if requeue(runner, &attempt, JobState::NotSent).await {
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
            if requeue(runner, &attempt, JobState::MaybeSent).await {
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
