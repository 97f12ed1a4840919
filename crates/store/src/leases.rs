//! Leases: the right to run one execution, held by one process for a while.
//!
//! The token is the fence. It rises each time an execution is taken up, and every change a worker
//! makes names the token it was given, so a worker that lost its lease changes nothing. How long a
//! lease lasts is a matter of the database's clock alone.

use uuid::Uuid;

use crate::db::Tx;
use crate::files::insert_artifacts;
use crate::row::Row;
use crate::sql::{Arg, Sql, sql};
use crate::storage::StorageCheck;
use crate::webhooks::enqueue_webhook;
use crate::{Micros, NewFile, Status, Store, StoreError, TenantId, now};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    pub execution_id: Uuid,
    pub tenant: TenantId,
    pub owner: String,
    /// The fencing token.
    pub token: i64,
    /// Whether a webhook is owed when it ends.
    pub webhook: bool,
}

/// What a heartbeat brings back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeartbeatReply {
    /// Still ours.
    pub held: Vec<Uuid>,
    /// Still ours, and somebody wants them stopped.
    pub cancelled: Vec<Uuid>,
    /// Still ours, and somebody follows their log.
    pub watched: Vec<Uuid>,
}

/// What was asked of an execution before it started. Whoever asks later tells the process that runs
/// it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PendingRequests {
    /// Somebody wants it stopped.
    pub cancelled: bool,
    /// Somebody follows its log.
    pub watched: bool,
}

/// How an execution ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishedExecution {
    pub status: Status,
    /// JSON text, exactly as it will be sent.
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
    /// How large that archive is.
    pub archive_bytes: Option<i64>,
    /// What was signed about it, word for word.
    pub receipt: Option<String>,
}

const QUEUED_AGAIN: &str = "UPDATE executions SET status = 'queued', owner = NULL, started = FALSE, \
     started_at = NULL, lease_until = NULL";

impl Store {
    /// Notes that the job is about to reach a guest: from now on it is not retried, because it may
    /// have acted. `None` when the lease is lost, and then the job must not be sent.
    pub async fn mark_started(&self, lease: &Lease) -> Result<Option<PendingRequests>, StoreError> {
        let update = sql("UPDATE executions SET started = TRUE");
        let marked = held_by(update, lease).push(" RETURNING cancel_requested, watched");
        let asked = |row: &Row| {
            Ok(PendingRequests {
                cancelled: row.get("cancel_requested")?,
                watched: row.get("watched")?,
            })
        };
        self.db.write_returning(marked).await?.first().map(asked).transpose()
    }

    /// Queues an execution again whose job did not reach a guest, or whose skill is idempotent.
    /// False when the lease is lost, the job may have acted, it was tried often enough, or somebody
    /// wants the execution stopped.
    pub async fn requeue(&self, lease: &Lease, max_attempts: i32) -> Result<bool, StoreError> {
        let update = held_by(sql(QUEUED_AGAIN), lease).push(" AND (NOT started OR idempotent)");
        self.requeue_with(update, max_attempts).await
    }

    /// Queues an execution again that was born as started, by the one who knows that its job was
    /// never sent. `request` is stored with it, because what is born running is stored without the
    /// secrets that whoever runs it needs. False as for `release`.
    pub async fn requeue_unsent(
        &self,
        lease: &Lease,
        request: &str,
        max_attempts: i32,
    ) -> Result<bool, StoreError> {
        let update = sql(QUEUED_AGAIN).push_arg(", request = ", request);
        self.requeue_with(held_by(update, lease), max_attempts).await
    }

    async fn requeue_with(&self, update: Sql<'_>, max_attempts: i32) -> Result<bool, StoreError> {
        let update = update
            .push(" AND NOT cancel_requested")
            .push_arg(" AND attempt < ", i64::from(max_attempts))
            .push(" RETURNING 'queued' AS notification");
        Ok(!self.write_and_notify(update).await?.is_empty())
    }

    /// Extends leases by `lease_ms` from now, by the database's clock, and tells which are still
    /// held.
    pub async fn heartbeat(
        &self,
        leases: &[Lease],
        lease_ms: i64,
    ) -> Result<HeartbeatReply, StoreError> {
        let mut beat = HeartbeatReply::default();
        // Both databases bound the number of placeholders; this stays far below either.
        for some in leases.chunks(500) {
            for row in self.db.write_returning(extend(some, lease_ms, self.db.clock())).await? {
                let id = row.parse("id")?;
                if row.get("cancel_requested")? {
                    beat.cancelled.push(id);
                }
                if row.get("watched")? {
                    beat.watched.push(id);
                }
                beat.held.push(id);
            }
        }
        Ok(beat)
    }

    /// Records the end of an execution and its artifacts, all or nothing. False, and nothing is
    /// changed, when the lease is no longer held: a late worker's result is not a result.
    pub async fn finish(
        &self,
        lease: &Lease,
        finished: &FinishedExecution,
    ) -> Result<bool, StoreError> {
        if !finished.status.is_terminal() {
            return Err(StoreError::Conflict("an execution must finish in a final status"));
        }
        let now = now();
        // The usual end is one statement and one commit.
        if finished.files.is_empty() && !lease.webhook {
            return Ok(!self.write_and_notify(end(lease, finished, now)).await?.is_empty());
        }
        let tx = self.db.begin().await?;
        self.finish_in(tx, None, lease, finished, now).await
    }

    /// The same for a tenant with a limit on what it stores. `StorageFull`, and nothing is changed,
    /// when the result exceeds it.
    pub async fn finish_within_limit(
        &self,
        lease: &Lease,
        finished: &FinishedExecution,
    ) -> Result<bool, StoreError> {
        if !finished.status.is_terminal() {
            return Err(StoreError::Conflict("an execution must finish in a final status"));
        }
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
        let Some(ended) = tx.one(self.with_notification(end(lease, finished, now))).await? else {
            return Ok(false);
        };
        insert_artifacts(&mut tx, lease, &finished.files, now).await?;
        if lease.webhook {
            enqueue_webhook(&mut tx, lease.execution_id, now).await?;
        }
        if let Some(storage) = storage {
            storage.verify(&mut tx).await?;
        }
        tx.commit().await?;
        self.notify_local(&[ended])?;
        Ok(true)
    }
}

/// Restricts an update to the execution this lease is for, as long as it is held.
fn held_by<'a>(update: Sql<'a>, lease: &'a Lease) -> Sql<'a> {
    update
        .push_arg(" WHERE id = ", lease.execution_id)
        .push_arg(" AND tenant = ", &lease.tenant)
        .push_arg(" AND owner = ", &lease.owner)
        .push_arg(" AND token = ", lease.token)
        .push(" AND status = 'running'")
}

fn extend<'a>(leases: &'a [Lease], lease_ms: i64, clock: &'static str) -> Sql<'a> {
    let rows = leases.iter().map(|lease| {
        [Arg::from(lease.execution_id), Arg::from(&lease.owner), Arg::from(lease.token)]
    });
    sql("UPDATE executions SET lease_until = ")
        .push(clock)
        .push(" + $1 WHERE status = 'running' AND (id, owner, token) IN (VALUES ")
        .bind(lease_ms * 1000)
        .push_rows(rows)
        .push(") RETURNING id, cancel_requested, watched")
}

/// What was asked for goes with the end: it may hold secrets, and is of no more use.
fn end<'a>(lease: &'a Lease, finished: &'a FinishedExecution, now: Micros) -> Sql<'a> {
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
    // Most ends are awaited by nobody but the process that made them, and an announcement costs: on
    // Postgres, commits that make one wait for each other.
    held_by(update, lease)
        .push(" RETURNING CASE WHEN awaited OR watched OR webhook IS NOT NULL THEN 'ended:' || id END AS notification")
}
