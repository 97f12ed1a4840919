//! Finishing: recording the result of an execution, once, under its lease.

use crate::db::Tx;
use crate::files::insert_artifacts;
use crate::leases::where_lease_held;
use crate::sql::{Sql, sql};
use crate::storage::StorageCheck;
use crate::webhooks::enqueue_webhook;
use crate::{Lease, Micros, NewFile, Status, Store, StoreError, now};

/// The result of an execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishedExecution {
    pub status: Status,
    /// JSON text, exactly as it is returned to clients.
    pub output: Option<String>,
    pub logs: String,
    pub error: Option<String>,
    pub outcome: String,
    pub exit_code: Option<i32>,
    /// JSON text: stdout, stderr, usage, isolation, timings, skipped files.
    pub detail: String,
    pub duration_ms: i64,
    pub files: Vec<NewFile>,
    pub has_archive: bool,
    /// The size of that archive.
    pub archive_bytes: Option<i64>,
    /// The signed receipt, byte for byte.
    pub receipt: Option<String>,
}

impl Store {
    /// Records the result of an execution and its artifacts, all or nothing. False when the lease
    /// is lost; nothing is changed then, so the result of a late worker is discarded.
    pub async fn finish(
        &self,
        lease: &Lease,
        finished: &FinishedExecution,
    ) -> Result<bool, StoreError> {
        require_terminal(finished)?;
        let now = now();
        // Most executions have neither files nor a webhook: one statement and one round trip.
        if finished.files.is_empty() && !lease.webhook {
            return Ok(!self.write_and_notify(finish(lease, finished, now)).await?.is_empty());
        }
        let tx = self.db.begin().await?;
        self.finish_in(tx, None, lease, finished, now).await
    }

    /// The same for a tenant with a storage quota. `StorageFull`, and nothing is changed, when the
    /// result exceeds it.
    pub async fn finish_within_limit(
        &self,
        lease: &Lease,
        finished: &FinishedExecution,
    ) -> Result<bool, StoreError> {
        require_terminal(finished)?;
        let mut tx = self.db.begin().await?;
        let storage = self.enforce_storage(&mut tx, &lease.tenant).await?;
        self.finish_in(tx, Some(storage), lease, finished, now()).await
    }

    async fn finish_in(
        &self,
        mut tx: Tx,
        storage: Option<StorageCheck<'_>>,
        lease: &Lease,
        finished: &FinishedExecution,
        now: Micros,
    ) -> Result<bool, StoreError> {
        // The fenced update comes first: with a lost lease no file row may be written.
        let update = self.with_notification(finish(lease, finished, now));
        let Some(updated) = tx.query_one(update).await? else {
            return Ok(false);
        };
        insert_artifacts(&mut tx, lease, &finished.files, now).await?;
        if lease.webhook {
            enqueue_webhook(&mut tx, lease.execution_id, now).await?;
        }
        // Last, because it compares all that this transaction has added with the quota.
        if let Some(storage) = storage {
            storage.verify(&mut tx).await?;
        }
        tx.commit().await?;
        self.notify_local(&[updated])?;
        Ok(true)
    }
}

fn require_terminal(finished: &FinishedExecution) -> Result<(), StoreError> {
    match finished.status.is_terminal() {
        true => Ok(()),
        false => Err(StoreError::Conflict("an execution must finish in a terminal status")),
    }
}

/// The request is erased: it may hold secrets, and nothing needs it after the end.
fn finish<'a>(lease: &'a Lease, finished: &'a FinishedExecution, now: Micros) -> Sql<'a> {
    let update = sql("UPDATE executions SET status = $1, output = $2, logs = $3, error = $4, \
         outcome = $5, exit_code = $6, detail = $7, duration_ms = $8, has_archive = $9, \
         finished_at = $10, receipt = $11, archive_bytes = $12, lease_until = NULL, request = ''")
    .bind(finished.status)
    .bind(&finished.output)
    .bind(&finished.logs)
    .bind(&finished.error)
    .bind(&finished.outcome)
    .bind(finished.exit_code.map(i64::from))
    .bind(&finished.detail)
    .bind(finished.duration_ms)
    .bind(finished.has_archive)
    .bind(now)
    .bind(&finished.receipt)
    .bind(finished.archive_bytes);
    // Most results are awaited only by the process that records them, and NOTIFY is not free:
    // Postgres serializes the commits of transactions that send notifications.
    where_lease_held(update, lease).push(
        " RETURNING CASE WHEN awaited OR watched OR webhook IS NOT NULL \
         THEN 'ended:' || id END AS notification",
    )
}
