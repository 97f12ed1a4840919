//! The `Runner`: what it holds, and the calls the server makes on it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use admission::{Budget, DiskMonitor, MemoryBudget, SharedResources, WithPermit};
use blobs::Blobs;
use catalogue::Catalogue;
use sandbox::{Launcher, Outcome};
use store::{CancelResult, Execution, Idempotency, Status, Store, StoreError, TenantId};
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::admission::Policies;
#[cfg(debug_assertions)]
use crate::failpoint;
use crate::leases::{Leases, StopReason, heartbeat};
use crate::meters::Meters;
use crate::patience::patiently;
use crate::readiness::Probe;
use crate::waiters::{Waiters, Waiting};
use crate::{
    Caller, Request, RunError, RunnerConfig, announced, execution, queue, reaper, retention,
    storage,
};

/// What a stopped run gets to be recorded in before the process leaves it to the next start's
/// reaper.
const LAST_GRACE: Duration = Duration::from_secs(5);

/// What a runner works with.
pub struct RunnerParts {
    pub store: Store,
    pub blobs: Blobs,
    pub catalogue: Arc<Catalogue>,
    /// The same as the catalogue's.
    pub resources: SharedResources,
    /// `None` in a process that only accepts requests.
    pub launcher: Option<Arc<dyn Launcher>>,
}

pub struct Runner {
    pub(crate) config: RunnerConfig,
    pub(crate) store: Store,
    pub(crate) blobs: Blobs,
    /// `None` in a process that only takes requests: what it accepts is queued for others.
    pub(crate) launcher: Option<Arc<dyn Launcher>>,
    pub(crate) catalogue: Arc<Catalogue>,
    /// Bytes that are buffered for tenants.
    pub(crate) memory: MemoryBudget,
    /// One permit for each execution that may run here at once.
    pub(crate) slots: Arc<Semaphore>,
    /// Rung when something was queued.
    pub(crate) queued: Notify,
    pub(crate) leases: Arc<Leases>,
    /// Callers who wait for the end of an execution.
    pub(crate) waiters: Waiters,
    /// How many of them there may be.
    pub(crate) waiter_slots: Budget,
    /// Those who follow an execution's events.
    pub(crate) readers: Waiters,
    /// Everything that must end before a drain is over.
    pub(crate) tasks: TaskTracker,
    /// No new work is taken.
    pub(crate) closing: CancellationToken,
    /// The heartbeat and the reaper end too.
    pub(crate) closed: CancellationToken,
    pub(crate) probe: Probe,
    pub(crate) policies: Policies,
    pub(crate) meters: Meters,
    pub(crate) disk: DiskMonitor,
}

impl Runner {
    /// Recovers what an earlier process left and starts the background loops.
    pub async fn start(config: RunnerConfig, parts: RunnerParts) -> Result<Arc<Runner>, RunError> {
        let RunnerParts { store, blobs, catalogue, resources, launcher } = parts;
        #[cfg(debug_assertions)]
        failpoint::arm(config.failpoint);
        let announcements = store.notifications();
        let slots = if launcher.is_some() { config.slots } else { 0 };
        let runner = Arc::new(Runner {
            catalogue,
            memory: resources.memory,
            slots: Arc::new(Semaphore::new(slots)),
            queued: Notify::new(),
            leases: Arc::default(),
            waiters: Waiters::default(),
            waiter_slots: Budget::new(config.max_waiting as u64),
            readers: Waiters::default(),
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
            closed: CancellationToken::new(),
            probe: Probe::default(),
            policies: Policies::new(),
            meters: Meters::default(),
            disk: resources.disk,
            config,
            store,
            blobs,
            launcher,
        });
        reaper::recover(&runner).await?;
        if slots > 0 {
            runner.tasks.spawn(queue::work(Arc::clone(&runner)));
        }
        let background = TaskTracker::new();
        background.spawn(announced::hear(Arc::clone(&runner), announcements));
        background.spawn(retention::retain(Arc::clone(&runner)));
        background.spawn(reaper::reap(Arc::clone(&runner)));
        background.spawn(storage::keep_count(Arc::clone(&runner)));
        background.spawn(reaper::sweep_orphans(Arc::clone(&runner)));
        let (leases, store) = (Arc::clone(&runner.leases), runner.store.clone());
        background.spawn(heartbeat(leases, store, runner.config.lease, runner.closed.clone()));
        Ok(runner)
    }

    /// Runs a skill and waits for its end. Dropping the future does not stop the run.
    pub async fn execute(
        self: &Arc<Self>,
        caller: &Caller,
        request: Request,
        idempotency: Option<Idempotency>,
    ) -> Result<WithPermit<Execution>, RunError> {
        let began = Instant::now();
        let waiter_slot = self.waiter_slot(&caller.tenant)?;
        let admitted = match self.admit(caller, request).await {
            Ok(admitted) => admitted,
            Err(refusal) => {
                drop(waiter_slot);
                let earlier = self.repeated(caller, refusal, idempotency.as_ref()).await?;
                return self.end_of(earlier).await;
            }
        };
        let slot = self.free_slot(&admitted);
        if slot.is_none() && admitted.order.refusal.is_none() {
            let waiting = self.waiters.wait_for(admitted.order.id);
            let id = self.enqueue(admitted, idempotency, true).await?;
            return match id == waiting.id() {
                true => self.until_ended(&caller.tenant, waiting).await,
                false => self.wait(&caller.tenant, id).await,
            };
        }
        drop(waiter_slot);
        let carried =
            execution::fresh(Arc::clone(self), admitted.order, idempotency, began.elapsed(), slot);
        self.tasks.spawn(carried).await.map_err(|_| RunError::Broken)?
    }

    /// Accepts a run and answers with its id as soon as that is stored.
    pub async fn submit(
        self: &Arc<Self>,
        caller: &Caller,
        request: Request,
        idempotency: Option<Idempotency>,
    ) -> Result<Uuid, RunError> {
        let began = Instant::now();
        let admitted = match self.admit(caller, request).await {
            Ok(admitted) => admitted,
            Err(refusal) => {
                return Ok(self.repeated(caller, refusal, idempotency.as_ref()).await?.id);
            }
        };
        if admitted.order.refusal.is_none() {
            return self.enqueue(admitted, idempotency, false).await;
        }
        let refused =
            execution::fresh(Arc::clone(self), admitted.order, idempotency, began.elapsed(), None);
        let recorded = self.tasks.spawn(refused).await.map_err(|_| RunError::Broken)?;
        recorded.map(|execution| execution.id)
    }

    /// Asks for an execution's end; `None` when the tenant has no such execution.
    pub async fn cancel(
        &self,
        tenant: &TenantId,
        id: Uuid,
    ) -> Result<Option<CancelResult>, RunError> {
        let cancel = self.store.request_cancel(tenant, id).await?;
        match cancel {
            Some(CancelResult::Cancelled) => {
                self.meters.end(Status::Cancelled, Outcome::Cancelled);
                self.ended(id);
            }
            // Running elsewhere, it is stopped there by the announcement.
            Some(CancelResult::Requested) => self.leases.stop(id, StopReason::Cancelled),
            Some(CancelResult::AlreadyFinished) | None => {}
        }
        Ok(cancel)
    }

    /// Stops taking work and waits for what runs here. At the deadline the rest is stopped and
    /// recorded as lost, not as cancelled: nobody asked for its end. What is queued stays queued.
    pub async fn drain(&self, deadline: Duration) {
        self.closing.cancel();
        self.tasks.close();
        if tokio::time::timeout(deadline, self.tasks.wait()).await.is_err() {
            self.leases.stop_all(StopReason::Shutdown);
            let _ = tokio::time::timeout(LAST_GRACE, self.tasks.wait()).await;
        }
        self.closed.cancel();
    }

    /// Waits for the end of an execution that this caller does not carry.
    pub async fn wait(
        &self,
        tenant: &TenantId,
        id: Uuid,
    ) -> Result<WithPermit<Execution>, RunError> {
        let waiting = self.waiters.wait_for(id);
        self.store.mark_awaited(tenant, id).await?;
        self.until_ended(tenant, waiting).await
    }

    async fn until_ended(
        &self,
        tenant: &TenantId,
        mut waiting: Waiting,
    ) -> Result<WithPermit<Execution>, RunError> {
        let missing = || RunError::Store(StoreError::NotFound);
        loop {
            let look = || self.store.get_execution_summary(tenant, waiting.id());
            let execution =
                patiently("looking for an end", look).await?.answer.ok_or_else(missing)?;
            match execution.status {
                // It will run elsewhere, or after the next start, but not for this caller.
                Status::Queued if self.closing.is_cancelled() => {
                    return Err(RunError::ShuttingDown);
                }
                status if status.is_terminal() => {
                    return self.read_execution(tenant, waiting.id()).await?.ok_or_else(missing);
                }
                _ => {}
            }
            // An announcement may be lost, so everybody looks from time to time; many wait, so not
            // too often.
            let tick = tokio::time::sleep(self.config.queue_tick * 5);
            tokio::select! {
                () = waiting.rung() => {}
                () = self.closing.cancelled(), if !self.closing.is_cancelled() => {}
                () = tick => {}
            }
        }
    }

    /// For a caller who asked for what was asked for before.
    pub(crate) async fn end_of(
        &self,
        execution: Execution,
    ) -> Result<WithPermit<Execution>, RunError> {
        if execution.status.is_terminal() {
            return Ok(WithPermit::without_permit(execution));
        }
        let _waiter_slot = self.waiter_slot(&execution.tenant)?;
        self.wait(&execution.tenant, execution.id).await
    }

    /// Wakes whoever waits for the end of this execution here.
    pub(crate) fn ended(&self, id: Uuid) {
        self.waiters.ring(id);
        self.readers.ring(id);
    }

    pub(crate) fn lease_ms(&self) -> i64 {
        i64::try_from(self.config.lease.as_millis()).unwrap_or(i64::MAX)
    }
}
