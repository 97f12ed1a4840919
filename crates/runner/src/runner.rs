//! The `Runner`: what it holds, and the calls the server makes on it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use blobs::Blobs;
use moka::future::Cache;
use sandbox::Launcher;
use store::{Born, Cancel, Execution, Idempotency, Inserted, Status, Store, StoreError, TenantId};
use tokio::sync::{Mutex, Notify, OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::accept::{Order, accept};
use crate::leases::{Leases, StopReason, heartbeat};
use crate::load::Skills;
use crate::readiness::Probe;
use crate::waiters::{Waiters, Waiting};
use crate::{Caller, Request, RunError, RunnerConfig, execution, queue, reaper};

/// How long a changed tenant policy may go unnoticed.
const POLICY_TTL: Duration = Duration::from_secs(5);
/// What a stopped run gets to be recorded in before the process leaves it to the next start's reaper.
const LAST_GRACE: Duration = Duration::from_secs(5);

pub struct Runner {
    pub(crate) config: RunnerConfig,
    pub(crate) store: Store,
    pub(crate) blobs: Blobs,
    pub(crate) launcher: Arc<dyn Launcher>,
    pub(crate) skills: Skills,
    /// One permit for each execution that may run here at once.
    pub(crate) slots: Arc<Semaphore>,
    /// Rung when something was queued.
    pub(crate) queued: Notify,
    pub(crate) leases: Arc<Leases>,
    pub(crate) waiters: Waiters,
    /// Everything that must end before a drain is over.
    pub(crate) tasks: TaskTracker,
    /// No new work is taken.
    pub(crate) closing: CancellationToken,
    /// The heartbeat and the reaper end too.
    pub(crate) closed: CancellationToken,
    /// Uploads and deletions one at a time, so that neither removes an archive the other counts on.
    pub(crate) publishing: Mutex<()>,
    /// Archives without a skill that an execution may still need.
    pub(crate) leftovers: std::sync::Mutex<BTreeSet<(TenantId, String)>>,
    pub(crate) probe: Probe,
    /// Whether a tenant's concurrency is limited.
    limited: Cache<TenantId, bool>,
}

impl Runner {
    /// Recovers what an earlier process left and starts the background loops.
    pub async fn start(
        config: RunnerConfig,
        store: Store,
        blobs: Blobs,
        launcher: Arc<dyn Launcher>,
    ) -> Result<Arc<Runner>, RunError> {
        let runner = Arc::new(Runner {
            skills: Skills::new(blobs.clone(), config.skill_cache_bytes),
            slots: Arc::new(Semaphore::new(config.slots)),
            queued: Notify::new(),
            leases: Arc::default(),
            waiters: Waiters::default(),
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
            closed: CancellationToken::new(),
            publishing: Mutex::default(),
            leftovers: std::sync::Mutex::default(),
            probe: Probe::default(),
            limited: Cache::builder().max_capacity(10_000).time_to_live(POLICY_TTL).build(),
            config,
            store,
            blobs,
            launcher,
        });
        reaper::recover(&runner).await?;
        runner.tasks.spawn(queue::work(Arc::clone(&runner)));
        let background = TaskTracker::new();
        background.spawn(reaper::reap(Arc::clone(&runner)));
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
    ) -> Result<Execution, RunError> {
        let began = Instant::now();
        let order = self.accept(caller, request).await?;
        let slot = self.free_slot(&order).await?;
        if slot.is_none() && order.refusal.is_none() {
            let (tenant, mut waiting) = (order.tenant.clone(), self.waiters.wait_for(order.id));
            let id = self.enqueue(order, idempotency).await?;
            if id != waiting.id() {
                waiting = self.waiters.wait_for(id);
            }
            return self.until_ended(&tenant, waiting).await;
        }
        let carried = execution::fresh(Arc::clone(self), order, idempotency, began.elapsed(), slot);
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
        let order = self.accept(caller, request).await?;
        if order.refusal.is_none() {
            return self.enqueue(order, idempotency).await;
        }
        let refused = execution::fresh(Arc::clone(self), order, idempotency, began.elapsed(), None);
        let recorded = self.tasks.spawn(refused).await.map_err(|_| RunError::Broken)?;
        recorded.map(|execution| execution.id)
    }

    /// Asks for an execution's end; `None` when the tenant has no such execution.
    pub async fn cancel(&self, tenant: &TenantId, id: Uuid) -> Result<Option<Cancel>, RunError> {
        let cancel = self.store.request_cancel(tenant, id).await?;
        match cancel {
            Some(Cancel::Cancelled) => self.waiters.wake(id),
            // Running elsewhere, it is stopped there by the next heartbeat.
            Some(Cancel::Requested) => self.leases.stop(id, StopReason::Cancelled),
            Some(Cancel::AlreadyFinished) | None => {}
        }
        Ok(cancel)
    }

    /// Stops taking work and waits for what runs here. At the deadline the rest is stopped and recorded as lost, not as
    /// cancelled: nobody asked for its end. What is queued stays queued.
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
    pub(crate) async fn wait(&self, tenant: &TenantId, id: Uuid) -> Result<Execution, RunError> {
        self.until_ended(tenant, self.waiters.wait_for(id)).await
    }

    async fn until_ended(&self, tenant: &TenantId, waiting: Waiting<'_>) -> Result<Execution, RunError> {
        loop {
            let found = self.store.get_execution(tenant, waiting.id()).await?;
            let execution = found.ok_or(RunError::Store(StoreError::NotFound))?;
            match execution.status {
                // It will run after the next start, but not for this caller.
                Status::Queued if self.closing.is_cancelled() => return Err(RunError::ShuttingDown),
                status if status.terminal() => return Ok(execution),
                _ => {}
            }
            // Ends in other processes are announced to nobody, so everybody looks from time to time.
            let tick = tokio::time::sleep(self.config.queue_tick);
            tokio::select! {
                () = waiting.ended(), if !waiting.has_ended() => {}
                () = self.closing.cancelled(), if !self.closing.is_cancelled() => {}
                () = tick => {}
            }
        }
    }

    pub(crate) async fn end_of(&self, execution: Execution) -> Result<Execution, RunError> {
        if execution.status.terminal() {
            return Ok(execution);
        }
        self.wait(&execution.tenant, execution.id).await
    }

    pub(crate) fn lease_ms(&self) -> i64 {
        i64::try_from(self.config.lease.as_millis()).unwrap_or(i64::MAX)
    }

    async fn accept(&self, caller: &Caller, request: Request) -> Result<Order, RunError> {
        if self.closing.is_cancelled() {
            return Err(RunError::ShuttingDown);
        }
        if self.waiters.count() >= self.config.max_waiting {
            return Err(RunError::TooBusy);
        }
        accept(&self.store, caller, request).await
    }

    /// A slot, when there is one and the tenant may have it. A tenant with a limit on its concurrency always queues,
    /// because claiming is where running executions are counted.
    async fn free_slot(&self, order: &Order) -> Result<Option<OwnedSemaphorePermit>, RunError> {
        let limited = match self.limited.get(&order.tenant).await {
            Some(limited) => limited,
            None => {
                let tenant = self.store.get_tenant(&order.tenant).await?;
                let limited = tenant.is_some_and(|tenant| tenant.policy.max_concurrent.is_some());
                self.limited.insert(order.tenant.clone(), limited).await;
                limited
            }
        };
        if limited {
            return Ok(None);
        }
        Ok(Arc::clone(&self.slots).try_acquire_owned().ok())
    }

    async fn enqueue(&self, order: Order, idempotency: Option<Idempotency>) -> Result<Uuid, RunError> {
        match self.store.insert_execution(&order.row(Born::Queued, idempotency)).await? {
            Inserted::Existing(earlier) => Ok(earlier.id),
            Inserted::New(_) => {
                self.queued.notify_one();
                Ok(order.id)
            }
        }
    }
}
