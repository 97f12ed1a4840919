//! The calls that the server makes: execute, submit, wait, cancel.

use std::sync::Arc;
use std::time::Instant;

use sandbox::Outcome;
use store::{CancelResult, Execution, Idempotency, Status, StoreError, TenantId};
use uuid::Uuid;

use super::accept;
use super::completed::CompletedExecution;
use super::orchestrator::run_accepted;
use crate::queue::leases::StopReason;
use crate::queue::waiters::Waiter;
use crate::retry::retry_transient;
use crate::runner::Runner;
use crate::{Caller, Request, RunError};
use admission::Permit;
use admission::WithPermit;

/// A waiter reads its row without a notification this many queue ticks apart.
const TICKS_PER_READ: u32 = 5;

impl Runner {
    /// Runs a skill and waits for its end. Dropping the future does not stop the run.
    pub async fn execute(
        self: &Arc<Self>,
        caller: &Caller,
        request: Request,
        idempotency: Option<Idempotency>,
    ) -> Result<WithPermit<CompletedExecution>, RunError> {
        let began = Instant::now();
        let waiter_slot = self.waiter_slot(&caller.tenant)?;
        let admitted = match accept::admit(self, caller, request).await {
            Ok(admitted) => admitted,
            Err(error) => {
                drop(waiter_slot);
                let earlier =
                    accept::find_repeated(self, caller, error, idempotency.as_ref()).await?;
                return self.wait_for_repeated(earlier).await;
            }
        };
        let slot = accept::free_slot(self, &admitted);
        // A refused request needs no slot: it only has to be recorded.
        if slot.is_none() && admitted.accepted.refusal.is_none() {
            // Subscribed before the insert, so that no end is missed.
            let waiter = self.waiters.subscribe(admitted.accepted.id);
            let id = accept::insert_queued(self, admitted, idempotency, true).await?;
            let ended = match id == waiter.id() {
                true => self.wait_until_ended(&caller.tenant, waiter).await,
                // The request repeats an earlier one, which is to be waited for instead.
                false => self.wait(&caller.tenant, id).await,
            };
            return ended.map(|ended| ended.map(CompletedExecution::from));
        }
        // This caller waits for a run of this process, which its slot bounds.
        drop(waiter_slot);
        let runner = Arc::clone(self);
        let running = run_accepted(runner, admitted.accepted, idempotency, began.elapsed(), slot);
        self.tasks.spawn(running).await.map_err(|_| RunError::Broken)?
    }

    /// Accepts a run and returns its id as soon as its row is stored.
    pub async fn submit(
        self: &Arc<Self>,
        caller: &Caller,
        request: Request,
        idempotency: Option<Idempotency>,
    ) -> Result<Uuid, RunError> {
        let began = Instant::now();
        let admitted = match accept::admit(self, caller, request).await {
            Ok(admitted) => admitted,
            Err(error) => {
                let earlier =
                    accept::find_repeated(self, caller, error, idempotency.as_ref()).await?;
                return Ok(earlier.id);
            }
        };
        if admitted.accepted.refusal.is_none() {
            return accept::insert_queued(self, admitted, idempotency, false).await;
        }
        // A refusal is recorded at once, without a turn in the queue.
        let runner = Arc::clone(self);
        let refused = run_accepted(runner, admitted.accepted, idempotency, began.elapsed(), None);
        let recorded = self.tasks.spawn(refused).await.map_err(|_| RunError::Broken)?;
        recorded.map(|completed| completed.execution.id)
    }

    /// Requests that an execution is stopped; `None` when the tenant has no such execution.
    pub async fn cancel(
        &self,
        tenant: &TenantId,
        id: Uuid,
    ) -> Result<Option<CancelResult>, RunError> {
        let cancel = self.store.request_cancel(tenant, id).await?;
        match cancel {
            Some(CancelResult::Cancelled) => {
                self.meters.count_end(Status::Cancelled, Outcome::Cancelled);
                self.notify_ended(id);
            }
            // If it runs in another process, the notification stops it there.
            Some(CancelResult::Requested) => self.leases.stop(id, StopReason::Cancelled),
            Some(CancelResult::AlreadyFinished) | None => {}
        }
        Ok(cancel)
    }

    /// A permit to wait for the end of an execution.
    pub fn waiter_slot(&self, tenant: &TenantId) -> Result<Permit, RunError> {
        self.waiter_slots.try_acquire(tenant, 1).map_err(|_| RunError::TooBusy)
    }

    /// Waits for the end of an execution that may run in any process.
    pub async fn wait(
        &self,
        tenant: &TenantId,
        id: Uuid,
    ) -> Result<WithPermit<Execution>, RunError> {
        let waiter = self.waiters.subscribe(id);
        self.store.mark_awaited(tenant, id).await?;
        self.wait_until_ended(tenant, waiter).await
    }

    async fn wait_until_ended(
        &self,
        tenant: &TenantId,
        mut waiter: Waiter,
    ) -> Result<WithPermit<Execution>, RunError> {
        let missing = || RunError::Store(StoreError::NotFound);
        loop {
            let read = || self.store.get_execution_summary(tenant, waiter.id());
            let read = retry_transient("reading an execution's status", read).await?;
            let execution = read.value.ok_or_else(missing)?;
            match execution.status {
                // It will run on another server, or after the next start, but not for this caller.
                Status::Queued if self.closing.is_cancelled() => {
                    return Err(RunError::ShuttingDown);
                }
                Status::Queued | Status::Running => {}
                Status::Success | Status::Failed | Status::Timeout | Status::Cancelled => {
                    return self.read_execution(tenant, waiter.id()).await?.ok_or_else(missing);
                }
            }
            // A notification may be lost, so every waiter reads its row from time to time; there
            // may be many waiters, so not too often.
            let tick = tokio::time::sleep(self.config.queue_tick * TICKS_PER_READ);
            tokio::select! {
                () = waiter.notified() => {}
                () = self.closing.cancelled(), if !self.closing.is_cancelled() => {}
                () = tick => {}
            }
        }
    }

    /// The end of the earlier execution that a request repeats.
    pub(crate) async fn wait_for_repeated(
        &self,
        earlier: Execution,
    ) -> Result<WithPermit<CompletedExecution>, RunError> {
        if earlier.status.is_terminal() {
            return Ok(WithPermit::without_permit(earlier.into()));
        }
        let _waiter_slot = self.waiter_slot(&earlier.tenant)?;
        let ended = self.wait(&earlier.tenant, earlier.id).await?;
        Ok(ended.map(CompletedExecution::from))
    }

    /// Wakes the callers in this process that wait for or follow the execution.
    pub(crate) fn notify_ended(&self, id: Uuid) {
        self.waiters.notify(id);
        self.subscribers.notify(id);
    }
}
