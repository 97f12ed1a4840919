//! The `Runner`: its parts, its start and its end. The calls that run something are in
//! `execution/calls.rs`.

use std::sync::Arc;
use std::time::Duration;

use admission::{Budget, DiskMonitor, MemoryBudget, SharedResources};
use blobs::Blobs;
use catalogue::Catalogue;
use sandbox::Launcher;
use store::Store;
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

#[cfg(debug_assertions)]
use crate::failpoint;
use crate::meters::Meters;
use crate::queue::leases::{Leases, StopReason, run_heartbeat};
use crate::queue::waiters::Waiters;
use crate::queue::{notifications, reaper, worker};
use crate::readiness::Probe;
use crate::tenant_policies::TenantPolicies;
use crate::{RunError, RunnerConfig, retention, storage_count};

/// Time that stopped runs get to be recorded. After it the process leaves them to the reaper.
const RECORD_GRACE: Duration = Duration::from_secs(5);

/// The parts that a runner uses.
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
    /// `None` in a process that only accepts requests: they are queued for other processes.
    pub(crate) launcher: Option<Arc<dyn Launcher>>,
    pub(crate) catalogue: Arc<Catalogue>,
    /// Budget for the bytes that are buffered for tenants.
    pub(crate) memory: MemoryBudget,
    /// One permit for each execution that may run here at once.
    pub(crate) slots: Arc<Semaphore>,
    /// Notified when an execution was queued.
    pub(crate) queued: Notify,
    pub(crate) leases: Arc<Leases>,
    /// Callers that wait for the end of an execution.
    pub(crate) waiters: Waiters,
    /// The number of callers that may wait at once.
    pub(crate) waiter_slots: Budget,
    /// Readers of an execution's events.
    pub(crate) subscribers: Waiters,
    /// Tasks that must end before a drain is over.
    pub(crate) tasks: TaskTracker,
    /// Cancelled when no new work is taken any more.
    pub(crate) closing: CancellationToken,
    /// Cancelled when the background loops end too.
    pub(crate) closed: CancellationToken,
    pub(crate) probe: Probe,
    pub(crate) policies: TenantPolicies,
    pub(crate) meters: Meters,
    pub(crate) disk: DiskMonitor,
}

impl Runner {
    /// Recovers what an earlier process left and starts the background loops.
    pub async fn start(config: RunnerConfig, parts: RunnerParts) -> Result<Arc<Runner>, RunError> {
        let RunnerParts { store, blobs, catalogue, resources, launcher } = parts;
        #[cfg(debug_assertions)]
        failpoint::arm(config.failpoint);
        let notifications = store.notifications();
        let slots = if launcher.is_some() { config.slots } else { 0 };
        let runner = Arc::new(Runner {
            catalogue,
            memory: resources.memory,
            slots: Arc::new(Semaphore::new(slots)),
            queued: Notify::new(),
            leases: Arc::default(),
            waiters: Waiters::default(),
            waiter_slots: Budget::new(config.max_waiting as u64),
            subscribers: Waiters::default(),
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
            closed: CancellationToken::new(),
            probe: Probe::default(),
            policies: TenantPolicies::new(),
            meters: Meters::default(),
            disk: resources.disk,
            config,
            store,
            blobs,
            launcher,
        });
        reaper::recover(&runner).await?;
        if slots > 0 {
            runner.tasks.spawn(worker::work(Arc::clone(&runner)));
        }
        let background = TaskTracker::new();
        background.spawn(notifications::listen(Arc::clone(&runner), notifications));
        background.spawn(retention::run_retention(Arc::clone(&runner)));
        background.spawn(reaper::reap(Arc::clone(&runner)));
        background.spawn(storage_count::maintain_storage_count(Arc::clone(&runner)));
        background.spawn(reaper::sweep_orphans(Arc::clone(&runner)));
        let (leases, store) = (Arc::clone(&runner.leases), runner.store.clone());
        background.spawn(run_heartbeat(leases, store, runner.config.lease, runner.closed.clone()));
        Ok(runner)
    }

    /// Stops taking work and waits for the runs of this process. At the deadline the rest is stopped
    /// and recorded as lost, not as cancelled: no caller requested it. Queued executions stay
    /// queued.
    pub async fn drain(&self, deadline: Duration) {
        self.closing.cancel();
        self.tasks.close();
        if tokio::time::timeout(deadline, self.tasks.wait()).await.is_err() {
            self.leases.stop_all(StopReason::Shutdown);
            let _ = tokio::time::timeout(RECORD_GRACE, self.tasks.wait()).await;
        }
        self.closed.cancel();
    }

    pub(crate) fn lease_ms(&self) -> i64 {
        i64::try_from(self.config.lease.as_millis()).unwrap_or(i64::MAX)
    }
}
