//! One execution carried through its six steps. This file only puts them in order.

use std::sync::Arc;
use std::time::{Duration, Instant};

use admission::{Permit, WithPermit};
use catalogue::{StorageQuota, reason_not_runnable};
use sandbox::{Guest, Outcome};
use store::{
    Execution, FinishedExecution, Idempotency, InitialState, InsertResult, Lease, NewExecution,
    StoreError,
};
use tokio::sync::OwnedSemaphorePermit;

use crate::RunError;
use crate::accept::{Order, StoredRequestError};
use crate::artifacts::{self, Artifacts};
use crate::checks;
use crate::collect::{Collected, collect};
use crate::detail::{Doubt, Timings};
use crate::failpoint::{Point, reach};
use crate::halt::Halt;
use crate::inputs;
use crate::leases::{Hold, StopReason};
use crate::load::{Skill, load};
use crate::patience::patiently;
use crate::plan::{Plan, plan};
use crate::receipt::{Ran, receipt};
use crate::record::{self, Recorded, record};
use crate::run::{Caught, launch, run};
use crate::runner::Runner;
use crate::tail;
use crate::vetting::Cleared;

/// The slot stays taken meanwhile, so a worker that cannot start anything does not empty the queue
/// into failures.
const GIVE_BACK_PAUSE: Duration = Duration::from_secs(1);
/// How long an engine or an API server that does not answer is waited for, about what a restart
/// takes at most. Then the attempt has failed.
const AWAY: Duration = Duration::from_secs(60);

/// Loaded, planned, and with a guest that waits for the job.
struct Ready {
    skill: Arc<Skill>,
    plan: Plan,
    guest: Guest,
    cleared: Cleared,
    /// For the skill, the input, the logs and the output.
    memory: Permit,
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
) -> Result<WithPermit<Execution>, RunError> {
    let began = Instant::now();
    let mut timings = Timings { accept_ms: millis(accept), ..Timings::default() };
    match begin(&runner, &order, idempotency, &mut timings).await {
        Ok((hold, ready)) => {
            if let Err(Halt { may_pass: true, .. }) = ready
                && runner.config.max_attempts > 1
                && give_back_unsent(&runner, &hold, &order).await
            {
                drop(slot);
                return runner.wait(&order.tenant, order.id).await;
            }
            let (collected, memory) = carry(&runner, &hold, ready, timings).await;
            if collected.outcome == Outcome::Lost && release(&runner, &hold).await {
                drop((slot, memory));
                return runner.wait(&order.tenant, order.id).await;
            }
            let mut ending = finish(collected, accept + began.elapsed());
            let recorded = conclude(&runner, hold, Some(&order), &mut ending).await?;
            drop(slot);
            match recorded {
                Recorded::Committed => Ok(held(record::executed(order, ending.finished), memory)),
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
pub async fn claimed(
    runner: Arc<Runner>,
    row: Execution,
    lease: Lease,
    slot: OwnedSemaphorePermit,
) {
    let began = Instant::now();
    let Some(hold) = runner.leases.hold(lease) else { return };
    let mut timings = Timings::default();
    let order = Order::from_row(&row, &runner.config.env_key);
    let ready = match &order {
        Ok(order) => match still_allowed(&runner, order).await {
            Ok(()) => prepare(&runner, order, &mut timings).await,
            Err(halt) => Err(halt),
        },
        Err(error) => {
            tracing::error!(execution_id = %row.id, %error, "a queued execution cannot be run");
            Err(unusable(error))
        }
    };
    if let Err(Halt { may_pass: true, .. }) = ready
        && row.attempt < runner.config.max_attempts
        && give_back(&runner, &hold).await
    {
        return;
    }
    // From here on only an idempotent skill is retried: the job may act as soon as it is sent.
    let ours = patiently("marking a start", || runner.store.mark_started(hold.lease()))
        .await
        .map(|tried| tried.answer);
    if let Ok(Some(asked)) = &ours {
        // Asked between the claim and the hold, it was announced to nobody.
        hold.apply(*asked);
    }
    if let (Ok(Some(_)), _) | (_, Err(_)) = (&ours, &ready)
        && !hold.is_lost()
    {
        let (collected, _memory) = carry(&runner, &hold, ready, timings).await;
        if collected.outcome == Outcome::Lost && release(&runner, &hold).await {
            return;
        }
        let mut ending = finish(collected, began.elapsed());
        if let Err(error) = conclude(&runner, hold, order.as_ref().ok(), &mut ending).await {
            tracing::error!(execution_id = %row.id, %error, "a result could not be recorded");
        }
    } else if let Ok(ready) = ready {
        tracing::warn!(execution_id = %row.id, ?ours, "an execution was taken away before it started");
        runner.meters.leases_lost.add();
        ready.guest.discard().await;
    }
    drop(slot);
    // Its tenant may have been at its limit, and then its next execution was passed over.
    runner.queued.notify_one();
}

/// What the caller learns of a row that cannot be run.
fn unusable(error: &StoredRequestError) -> Halt {
    Halt::lost(match error {
        StoredRequestError::Unreadable(_) => "The stored request could not be read.",
        StoredRequestError::Env(_) => {
            "The stored env could not be decrypted: the server's secret was changed, or the row was. Send the request again."
        }
    })
}

/// Whether what was accepted some time ago may still run: its skill may have been held or rejected
/// since.
async fn still_allowed(runner: &Runner, order: &Order) -> Result<(), Halt> {
    let looked = patiently("looking at a skill's status", || {
        runner.store.content_status(&order.tenant, &order.digest)
    });
    match looked.await {
        Ok(tried) => {
            match reason_not_runnable(tried.answer, &order.skill_name, &order.skill_version) {
                Some(why) => Err(Halt::refused(why)),
                None => Ok(()),
            }
        }
        Err(error) => {
            tracing::error!(execution_id = %order.id, %error, "the status of a skill could not be read");
            Err(Halt::unready("The skill's status could not be read."))
        }
    }
}

/// Leaves a claimed execution that could not be started to the next worker, after a pause in which
/// the cause may pass. False when it is not ours to give, or not wanted any more.
async fn give_back(runner: &Runner, hold: &Hold) -> bool {
    let_pass(runner, hold).await;
    release(runner, hold).await
}

/// The same for one that was born running: only here it is known that no job was sent, and what it
/// needs is only here.
async fn give_back_unsent(runner: &Runner, hold: &Hold, order: &Order) -> bool {
    let_pass(runner, hold).await;
    let request = order.written(Some(&runner.config.env_key));
    let released =
        runner.store.requeue_unsent(hold.lease(), &request, runner.config.max_attempts).await;
    given_back(released)
}

async fn let_pass(runner: &Runner, hold: &Hold) {
    let stopped = hold.stop_token();
    let passed = async {
        tokio::time::sleep(GIVE_BACK_PAUSE).await;
        let _ = tokio::time::timeout(AWAY, runner.sandbox_answers()).await;
    };
    tokio::select! {
        () = passed => {}
        () = stopped.cancelled() => {}
        () = runner.closing.cancelled() => {}
    }
}

/// Queues an execution again that may still be carried out: its job never acted, or its skill may
/// act twice.
async fn release(runner: &Runner, hold: &Hold) -> bool {
    given_back(runner.store.requeue(hold.lease(), runner.config.max_attempts).await)
}

fn given_back(released: Result<bool, StoreError>) -> bool {
    released
        .inspect_err(|error| tracing::warn!(%error, "giving an execution back failed"))
        .unwrap_or(false)
}

/// Writes the accepted row while the sandbox starts; one after the other when the request may be a
/// repetition, which must not cost a sandbox.
async fn begin(
    runner: &Runner,
    order: &Order,
    idempotency: Option<Idempotency>,
    timings: &mut Timings,
) -> Result<(Hold, Result<Ready, Halt>), NotBegun> {
    // The job is sent as soon as the guest is there, so nobody else may take it up, unless its
    // skill is idempotent or no guest could be had, which is known only here.
    let initial_state = InitialState::Running {
        owner: runner.config.owner.clone(),
        lease_ms: runner.lease_ms(),
        started: true,
    };
    let row = order.row(initial_state, idempotency, &runner.config.env_key);
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
    let inserted = match runner.storage_is_limited(&row.tenant).await.map_err(NotBegun::Failed)? {
        true => runner.store.insert_within_limits(row).await,
        false => runner.store.insert_execution(row).await,
    };
    match inserted.map_err(failed)? {
        InsertResult::New(Some(lease)) => {
            reach(Point::Accept);
            runner.leases.hold(lease).ok_or(NotBegun::Failed(RunError::Broken))
        }
        InsertResult::New(None) | InsertResult::QueueFull => {
            Err(NotBegun::Failed(RunError::Broken))
        }
        InsertResult::Existing(earlier) => Err(NotBegun::Repeated(earlier)),
    }
}

/// Load, plan, and the first half of run. What is refused here costs no sandbox.
async fn prepare(runner: &Runner, order: &Order, timings: &mut Timings) -> Result<Ready, Halt> {
    if let Some(refusal) = &order.refusal {
        return Err(refusal.clone());
    }
    let cleared = runner.clear(order).await?;
    let skill =
        timed(&mut timings.load_ms, load(&runner.catalogue, &order.tenant, &order.digest)).await?;
    let plan = plan(&skill, &order.request, &runner.config.policy)?;
    checks::check_input(runner, &order.tenant, &skill, order.request.input_json()).await?;
    let plan = plan.with_inputs(inputs::find(runner, order).await?)?;
    let memory = runner.memory.reserve(&order.tenant, buffered_bytes(&skill, order, &plan)).await?;
    let launched = timed(
        &mut timings.launch_ms,
        launch(runner.launcher.as_deref(), &runner.probe, &plan.shape),
    )
    .await;
    match &launched {
        Ok(_) => runner.meters.launch.record(Duration::from_secs_f64(timings.launch_ms / 1e3)),
        Err(_) => runner.meters.launches_failed.add(),
    }
    let guest = launched?;
    reach(Point::Launch);
    Ok(Ready { skill, plan, guest, cleared, memory })
}

/// What a run takes in memory at most: the skill's files while they are sent, and the documents and
/// logs, each of them twice, because they are read and then turned into what is stored and sent.
fn buffered_bytes(skill: &Skill, order: &Order, plan: &Plan) -> u64 {
    let input = order.input().map_or(0, str::len) as u64;
    let documents = input + plan.job.output_limits.log_bytes + plan.job.output_limits.output_bytes;
    skill.files_bytes.saturating_add(documents.saturating_mul(2))
}

/// A result with as much of the run's permit as it still needs.
fn held(execution: Execution, memory: Option<Permit>) -> WithPermit<Execution> {
    let Some(mut permit) = memory else { return WithPermit::without_permit(execution) };
    let documents = [&execution.input, &execution.output, &execution.detail]
        .into_iter()
        .flatten()
        .map(String::len);
    let bytes = documents.sum::<usize>() + execution.logs.len();
    permit.shrink_to(bytes as u64 * 2);
    WithPermit::new(execution, permit)
}

/// The second half of run, and collect.
async fn carry(
    runner: &Runner,
    hold: &Hold,
    ready: Result<Ready, Halt>,
    mut timings: Timings,
) -> (Collected, Option<Permit>) {
    let (mut collected, memory) = match ready {
        Err(halt) => (Collected::halted(halt), None),
        Ok(Ready { skill, plan, guest, cleared, memory }) => {
            let artifacts = Artifacts::new(runner.blobs.clone(), hold.lease());
            let mut caught = Caught::new(&plan.job, artifacts);
            let logs = caught.logs.clone();
            let running =
                timed(&mut timings.run_ms, run(guest, &plan.job, hold.stop_token(), &mut caught));
            let ran =
                tail::beside(running, &runner.store, hold.lease(), &logs, hold.watched_token())
                    .await;
            reach(Point::Run);
            let mut collected = timed(
                &mut timings.collect_ms,
                collect(runner, &hold.lease().tenant, ran, caught, &skill, &plan),
            )
            .await;
            collected.detail.trust = cleared.problem.as_ref().map(Doubt::from);
            collected.signed_by = cleared.signed_by;
            (collected, Some(memory))
        }
    };
    if collected.outcome == Outcome::Cancelled && hold.stop_reason() == Some(StopReason::Shutdown) {
        collected.outcome = Outcome::Lost;
        collected.error = Some("The server shut down before the script ended.".to_owned());
    }
    collected.detail.timings = timings;
    (collected, memory)
}

/// The result as it is stored, and what its receipt says beside it.
struct Ending {
    finished: FinishedExecution,
    ran: Ran,
}

fn finish(mut collected: Collected, took: Duration) -> Ending {
    let ran = Ran {
        script: collected.script.take(),
        isolation: collected.detail.isolation.clone(),
        signed_by: collected.signed_by.take(),
    };
    Ending { finished: record::finished(collected, took), ran }
}

/// Record, and wake whoever waits for it.
async fn conclude(
    runner: &Runner,
    hold: Hold,
    order: Option<&Order>,
    ending: &mut Ending,
) -> Result<Recorded, RunError> {
    reach(Point::Collect);
    let limited = runner.storage_is_limited(&hold.lease().tenant).await.unwrap_or(true);
    let recorded = match seal(runner, &hold, order, ending, limited).await {
        // What was left in blobs belongs to nobody, so it goes before the record says so.
        Err(StoreError::StorageFull { used_bytes, limit_bytes, needed_bytes }) => {
            let Lease { tenant, execution_id, token, .. } = hold.lease();
            artifacts::discard(&runner.blobs, tenant, *execution_id, *token).await;
            let quota =
                StorageQuota::new(StorageQuota::STORED, used_bytes, limit_bytes, needed_bytes);
            ending.finished = record::without_results(&ending.finished, quota);
            seal(runner, &hold, order, ending, false).await?
        }
        recorded => recorded?,
    };
    reach(Point::Record);
    match recorded {
        Recorded::Committed => runner.meters.recorded(&ending.finished),
        Recorded::Fenced => runner.meters.leases_lost.add(),
    }
    runner.ended(hold.lease().execution_id);
    Ok(recorded)
}

/// Records the result with its receipt, where receipts are made.
async fn seal(
    runner: &Runner,
    hold: &Hold,
    order: Option<&Order>,
    ending: &mut Ending,
    limited: bool,
) -> Result<Recorded, StoreError> {
    let Ending { finished, ran } = ending;
    if let (Some(key), Some(order)) = (&runner.config.receipt_key, order) {
        finished.receipt = Some(receipt(key, order, hold.lease(), finished, ran, store::now()));
    }
    record(&runner.store, &runner.blobs, hold.lease(), finished, limited).await
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
