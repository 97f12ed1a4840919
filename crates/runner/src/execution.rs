//! One execution carried through its six steps. This file only puts them in order.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sandbox::{Guest, Outcome};
use store::{Born, Execution, Finished, Idempotency, Inserted, Lease, NewExecution};
use tokio::sync::OwnedSemaphorePermit;

use crate::RunError;
use crate::accept::Order;
use crate::artifacts::Artifacts;
use crate::collect::{Collected, collect};
use crate::detail::Timings;
use crate::halt::Halt;
use crate::leases::{Hold, StopReason};
use crate::load::Skill;
use crate::plan::{Plan, plan};
use crate::record::{self, Recorded, record};
use crate::run::{Caught, launch, run};
use crate::runner::Runner;

/// Loaded, planned, and with a guest that waits for the job.
struct Ready {
    skill: Arc<Skill>,
    plan: Plan,
    guest: Guest,
}

/// Why an accepted order is not carried out here.
enum NotBegun {
    /// The same request was accepted before, as this execution.
    Repeated(Box<Execution>),
    Failed(RunError),
}

/// Carries out an order that was just accepted, and answers with its stored result.
pub async fn fresh(
    runner: Arc<Runner>,
    order: Order,
    idempotency: Option<Idempotency>,
    accept: Duration,
    slot: Option<OwnedSemaphorePermit>,
) -> Result<Execution, RunError> {
    let began = Instant::now();
    let mut timings = Timings { accept_ms: millis(accept), ..Timings::default() };
    match begin(&runner, &order, idempotency, &mut timings).await {
        Ok((hold, ready)) => {
            let collected = carry(&runner, &hold, ready, timings).await;
            let finished = record::finished(collected, accept + began.elapsed());
            let recorded = conclude(&runner, hold, &finished).await?;
            drop(slot);
            match recorded {
                Recorded::Committed => Ok(record::executed(order, finished)),
                Recorded::Fenced => runner.wait(&order.tenant, order.id).await,
            }
        }
        Err(NotBegun::Repeated(earlier)) => {
            drop(slot);
            runner.end_of(*earlier).await
        }
        Err(NotBegun::Failed(error)) => Err(error),
    }
}

/// Carries out an execution that was claimed from the queue. Nobody waits for the answer here.
pub async fn claimed(runner: Arc<Runner>, row: Execution, lease: Lease, slot: OwnedSemaphorePermit) {
    let began = Instant::now();
    let hold = runner.leases.hold(lease);
    let mut timings = Timings::default();
    let ready = match Order::from_row(&row) {
        Ok(order) => prepare(&runner, &order, &mut timings).await,
        Err(error) => {
            tracing::error!(execution_id = %row.id, %error, "a stored request cannot be read");
            Err(Halt::lost("The stored request could not be read."))
        }
    };
    // From here on the execution is not retried: the job may act as soon as it is sent.
    let ours = runner.store.mark_started(hold.lease()).await;
    if let (Ok(true), _) | (_, Err(_)) = (&ours, &ready) {
        let collected = carry(&runner, &hold, ready, timings).await;
        let finished = record::finished(collected, began.elapsed());
        if let Err(error) = conclude(&runner, hold, &finished).await {
            tracing::error!(execution_id = %row.id, %error, "a result could not be recorded");
        }
    } else if let Ok(ready) = ready {
        tracing::warn!(execution_id = %row.id, ?ours, "an execution was taken away before it started");
        ready.guest.discard().await;
    }
    drop(slot);
    // Its tenant may have been at its limit, and then its next execution was passed over.
    runner.queued.notify_one();
}

/// Writes the accepted row while the sandbox starts; one after the other when the request may be a repetition, which
/// must not cost a sandbox.
async fn begin(
    runner: &Runner,
    order: &Order,
    idempotency: Option<Idempotency>,
    timings: &mut Timings,
) -> Result<(Hold, Result<Ready, Halt>), NotBegun> {
    // Nobody else may take it up: the job is sent as soon as the guest is there, and the stored request is not the
    // whole one.
    let born = Born::Running { owner: runner.config.owner.clone(), lease_ms: runner.lease_ms(), started: true };
    let row = order.row(born, idempotency);
    if row.idempotency.is_some() {
        let hold = insert(runner, &row).await?;
        return Ok((hold, prepare(runner, order, timings).await));
    }
    match tokio::join!(insert(runner, &row), prepare(runner, order, timings)) {
        (Ok(hold), ready) => Ok((hold, ready)),
        (Err(not_begun), ready) => {
            if let Ok(ready) = ready {
                ready.guest.discard().await;
            }
            Err(not_begun)
        }
    }
}

async fn insert(runner: &Runner, row: &NewExecution) -> Result<Hold, NotBegun> {
    let failed = |error| NotBegun::Failed(RunError::from(error));
    match runner.store.insert_execution(row).await.map_err(failed)? {
        Inserted::New(Some(lease)) => Ok(runner.leases.hold(lease)),
        Inserted::New(None) => Err(NotBegun::Failed(RunError::Broken)),
        Inserted::Existing(earlier) => Err(NotBegun::Repeated(earlier)),
    }
}

/// Load, plan, and the first half of run. What is refused here costs no sandbox.
async fn prepare(runner: &Runner, order: &Order, timings: &mut Timings) -> Result<Ready, Halt> {
    if let Some(refusal) = &order.refusal {
        return Err(refusal.clone());
    }
    let skill = timed(&mut timings.load_ms, runner.skills.load(&order.tenant, &order.digest)).await?;
    let plan = plan(&skill, &order.request, &runner.config.policy)?;
    let guest = timed(&mut timings.launch_ms, launch(&*runner.launcher, &plan.shape)).await?;
    Ok(Ready { skill, plan, guest })
}

/// The second half of run, and collect.
async fn carry(runner: &Runner, hold: &Hold, ready: Result<Ready, Halt>, mut timings: Timings) -> Collected {
    let mut collected = match ready {
        Err(halt) => Collected::halted(halt),
        Ok(Ready { skill, plan, guest }) => {
            let lease = hold.lease();
            let artifacts = Artifacts::new(runner.blobs.clone(), lease.tenant.clone(), lease.execution_id);
            let mut caught = Caught::new(&plan.job, artifacts);
            let ran = timed(&mut timings.run_ms, run(guest, &plan.job, hold.stop_token(), &mut caught)).await;
            timed(&mut timings.collect_ms, collect(ran, caught, &skill, &plan)).await
        }
    };
    if collected.outcome == Outcome::Cancelled && hold.stop_reason() == Some(StopReason::Shutdown) {
        collected.outcome = Outcome::Lost;
        collected.error = Some("The server shut down before the script ended.".to_owned());
    }
    collected.detail.timings = timings;
    collected
}

/// Record, and wake whoever waits for it.
async fn conclude(runner: &Runner, hold: Hold, finished: &Finished) -> Result<Recorded, RunError> {
    let recorded = record(&runner.store, &runner.blobs, hold.lease(), finished).await?;
    runner.waiters.wake(hold.lease().execution_id);
    Ok(recorded)
}

async fn timed<T>(elapsed_ms: &mut f64, step: impl Future<Output = T>) -> T {
    let began = Instant::now();
    let done = step.await;
    *elapsed_ms = millis(began.elapsed());
    done
}

/// Milliseconds with three decimals.
fn millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}
