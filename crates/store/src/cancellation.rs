//! Cancellation: a queued execution ends at once; a running one is stopped by its worker.

use uuid::Uuid;

use crate::sql::{Sql, sql};
use crate::webhooks::enqueue_webhook;
use crate::{Micros, Status, Store, StoreError, TenantId, now};

/// The result of `request_cancel`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelResult {
    /// The execution was queued and will never run.
    Cancelled,
    /// The execution is running; the holder of its lease is notified.
    Requested,
    AlreadyFinished,
}

pub(crate) const CANCELLED_BEFORE_START: &str = "The execution was cancelled before it started.";

impl Store {
    /// Ends a queued execution at once and requests that a running one stops. `None` when the
    /// tenant has no such execution.
    pub async fn request_cancel(
        &self,
        tenant: &TenantId,
        id: Uuid,
    ) -> Result<Option<CancelResult>, StoreError> {
        let now = now();
        let mut tx = self.db.begin().await?;
        let Some(row) = tx.query_one(self.with_notification(cancel(tenant, id, now))).await? else {
            drop(tx);
            return Ok(self
                .get_execution(tenant, id)
                .await?
                .map(|_| CancelResult::AlreadyFinished));
        };
        let result = match row.parse("status")? {
            Status::Running => CancelResult::Requested,
            // The new status; the statement changes only queued and running executions.
            _ => {
                enqueue_webhook(&mut tx, id, now).await?;
                CancelResult::Cancelled
            }
        };
        tx.commit().await?;
        self.notify_local(&[row])?;
        Ok(Some(result))
    }
}

/// One statement for both cases. A worker that claims the execution at the same time commits either
/// before it, and is notified as a running one, or after it, and finds nothing to claim.
fn cancel(tenant: &TenantId, id: Uuid, now: Micros) -> Sql<'_> {
    sql("UPDATE executions SET cancel_requested = TRUE, \
         finished_at = CASE status WHEN 'queued' THEN $3 ELSE finished_at END, \
         outcome = CASE status WHEN 'queued' THEN 'cancelled' ELSE outcome END, \
         error = CASE status WHEN 'queued' THEN $4 ELSE error END, \
         request = CASE status WHEN 'queued' THEN '' ELSE request END, \
         status = CASE status WHEN 'queued' THEN 'cancelled' ELSE status END \
         WHERE tenant = $1 AND id = $2 AND status IN ('queued', 'running') \
         RETURNING status, CASE status WHEN 'running' THEN 'cancel:' ELSE 'ended:' END || id AS notification")
    .bind(tenant)
    .bind(id)
    .bind(now)
    .bind(CANCELLED_BEFORE_START)
}
