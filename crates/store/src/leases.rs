//! Leases: the time-limited right of one process to run one execution.
//!
//! The token of a lease is its fencing token. It rises with each claim, and every write of a worker
//! names the token that the worker was given, so a worker that lost its lease cannot change
//! anything. Leases expire by the database's clock alone.

use uuid::Uuid;

use crate::row::Row;
use crate::sql::{Arg, Sql, sql};
use crate::{Store, StoreError, TenantId};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    pub execution_id: Uuid,
    pub tenant: TenantId,
    pub owner: String,
    /// The fencing token.
    pub token: i64,
    /// Whether a webhook must be enqueued when the execution ends.
    pub webhook: bool,
}

/// The result of a heartbeat. The second and third list are subsets of the first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeartbeatReply {
    /// Executions whose lease is still held.
    pub held: Vec<Uuid>,
    /// Executions whose cancellation is requested.
    pub cancel_requested: Vec<Uuid>,
    /// Executions whose log a client follows.
    pub watched: Vec<Uuid>,
}

/// What clients requested before the execution started. Later requests reach the worker as
/// notifications.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PendingRequests {
    pub cancel_requested: bool,
    /// A client follows the log.
    pub watched: bool,
}

const REQUEUE: &str = "UPDATE executions SET status = 'queued', owner = NULL, started = FALSE, \
     started_at = NULL, lease_until = NULL";

impl Store {
    /// Records that the job is about to be sent to a guest: from now on the execution is not
    /// retried, because the job may have had effects. `None` when the lease is lost; the job must
    /// not be sent then.
    pub async fn mark_started(&self, lease: &Lease) -> Result<Option<PendingRequests>, StoreError> {
        let update = sql("UPDATE executions SET started = TRUE");
        // The requests are read by the same statement. A request that commits before it is
        // returned here; one that commits after it finds a worker that listens.
        let marked = where_lease_held(update, lease).push(" RETURNING cancel_requested, watched");
        let requests = |row: &Row| {
            Ok(PendingRequests {
                cancel_requested: row.get("cancel_requested")?,
                watched: row.get("watched")?,
            })
        };
        self.db.write_returning(marked).await?.first().map(requests).transpose()
    }

    /// Requeues an execution whose job did not reach a guest, or whose skill is idempotent. False
    /// when the lease is lost, the job may have had effects, no attempt is left, or cancellation
    /// was requested.
    pub async fn requeue(&self, lease: &Lease, max_attempts: i32) -> Result<bool, StoreError> {
        let update = where_lease_held(sql(REQUEUE), lease).push(" AND (NOT started OR idempotent)");
        self.requeue_with(update, max_attempts).await
    }

    /// Requeues an execution that was inserted as started; only its own process knows that the job
    /// was never sent. `request` replaces the stored one, which lacks the secrets that another
    /// worker needs. False as for `requeue`.
    pub async fn requeue_unsent(
        &self,
        lease: &Lease,
        request: &str,
        max_attempts: i32,
    ) -> Result<bool, StoreError> {
        let update = sql(REQUEUE).push_arg(", request = ", request);
        self.requeue_with(where_lease_held(update, lease), max_attempts).await
    }

    async fn requeue_with(&self, update: Sql<'_>, max_attempts: i32) -> Result<bool, StoreError> {
        // A cancelled execution must not return to the queue: the worker records its end instead.
        let update = update
            .push(" AND NOT cancel_requested")
            .push_arg(" AND attempt < ", i64::from(max_attempts))
            .push(" RETURNING 'queued' AS notification");
        Ok(!self.write_and_notify(update).await?.is_empty())
    }

    /// Extends leases to `lease_ms` from now, by the database's clock, and reports which are still
    /// held.
    pub async fn heartbeat(
        &self,
        leases: &[Lease],
        lease_ms: i64,
    ) -> Result<HeartbeatReply, StoreError> {
        let mut reply = HeartbeatReply::default();
        // Both databases limit the number of placeholders; 500 rows of three stay far below.
        for chunk in leases.chunks(500) {
            for row in self.db.write_returning(extend(chunk, lease_ms, self.db.clock())).await? {
                let id = row.parse("id")?;
                if row.get("cancel_requested")? {
                    reply.cancel_requested.push(id);
                }
                if row.get("watched")? {
                    reply.watched.push(id);
                }
                reply.held.push(id);
            }
        }
        Ok(reply)
    }
}

/// Restricts an update to the execution of this lease, while the lease is held. This is the fence:
/// the reaper changes `owner`, and the next claim raises `token`.
///
/// An expired lease that was not taken away still counts as held. Its worker is alive after all, and
/// its result is as good as one in time.
pub(crate) fn where_lease_held<'a>(update: Sql<'a>, lease: &'a Lease) -> Sql<'a> {
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
