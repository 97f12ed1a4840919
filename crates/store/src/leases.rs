//! Leases: the right to run one execution, held by one process for a while.
//!
//! The token is the fence. It rises each time an execution is taken up, and every change a worker
//! makes names the token it was given, so a worker that lost its lease changes nothing.

use uuid::Uuid;

use crate::executions::{CANCELLED_BEFORE_START, count_running};
use crate::files::insert_artifacts;
use crate::row::Row;
use crate::sql::{Arg, Sql, sql};
use crate::{Execution, Micros, NewFile, Status, Store, StoreError, TenantId, now};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    pub execution_id: Uuid,
    pub tenant: TenantId,
    pub owner: String,
    /// The fencing token.
    pub token: i64,
}

/// What a heartbeat brings back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Beat {
    /// Still ours.
    pub held: Vec<Uuid>,
    /// Still ours, and somebody wants them stopped.
    pub cancelled: Vec<Uuid>,
}

/// How an execution ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
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
}

/// An execution whose worker is gone and which nobody has ended yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fenced {
    pub execution_id: Uuid,
    pub tenant: TenantId,
}

/// What became of an execution whose worker is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reaped {
    pub execution_id: Uuid,
    pub tenant: TenantId,
    /// Queued again; otherwise it has ended.
    pub requeued: bool,
}

/// Whose leases are to be taken away.
#[derive(Debug, Clone, Copy)]
pub enum Gone<'a> {
    /// Of workers that were silent until this time.
    ExpiredAt(Micros),
    /// Of everybody but this owner. For an embedded server that has just started: it holds the lock of the data
    /// directory, so all other owners are dead.
    NotOwnedBy(&'a str),
}

const LOST: &str = "The worker that ran this execution went away, so its result is unknown. \
    Run it again if doing its work twice is safe.";

impl Store {
    /// Takes up the oldest queued execution of the tenant that was served longest ago, passing over
    /// tenants that already run as many as their policy allows.
    pub async fn claim_next(&self, owner: &str, lease_ms: i64) -> Result<Option<(Execution, Lease)>, StoreError> {
        for row in self.db.read(sql(WAITING_TENANTS)).await? {
            let tenant = row.parse("id")?;
            if let Some(claimed) = self.claim_from(&tenant, owner, lease_ms).await? {
                return Ok(Some(claimed));
            }
        }
        Ok(None)
    }

    async fn claim_from(
        &self,
        tenant: &TenantId,
        owner: &str,
        lease_ms: i64,
    ) -> Result<Option<(Execution, Lease)>, StoreError> {
        let now = now();
        let mut tx = self.db.begin().await?;
        let claim = sql("UPDATE executions SET status = 'running', owner = $2, token = token + 1, \
             attempt = attempt + 1, started_at = $3, lease_until = $4 WHERE id = \
             (SELECT id FROM executions WHERE tenant = $1 AND status = 'queued' \
              ORDER BY created_at, id LIMIT 1")
        .bind(tenant)
        .bind(owner)
        .bind(now)
        .bind(now + lease_ms * 1000)
        .push(self.db.skip_locked())
        .push(")");
        let Some(row) = tx.one(Execution::returning(claim).push(", token")).await? else {
            return Ok(None);
        };
        // From here on this tenant's row is locked, so claims for it count what runs one by one.
        let served =
            sql("UPDATE tenants SET served_at = $2 WHERE id = $1 RETURNING max_concurrent").bind(tenant).bind(now);
        if let Some(served) = tx.one(served).await?
            && let Some(max_concurrent) = served.get::<Option<i64>>("max_concurrent")?
            && let Some(running) = tx.one(count_running(tenant)).await?
            && running.get::<i64>("count")? > max_concurrent
        {
            return Ok(None);
        }
        tx.commit().await?;
        let lease = Lease {
            execution_id: row.parse("id")?,
            tenant: tenant.clone(),
            owner: owner.to_owned(),
            token: row.get("token")?,
        };
        Ok(Some((Execution::from_row(&row)?, lease)))
    }

    /// Notes that the job is about to reach a guest: from now on it is not retried, because it may
    /// have acted. False when the lease is lost, and then the job must not be sent.
    pub async fn mark_started(&self, lease: &Lease) -> Result<bool, StoreError> {
        let update = sql("UPDATE executions SET started = TRUE");
        Ok(self.db.write(held_by(update, lease)).await? > 0)
    }

    /// Extends leases by `lease_ms` from now and tells which are still held.
    pub async fn heartbeat(&self, leases: &[Lease], lease_ms: i64) -> Result<Beat, StoreError> {
        let mut beat = Beat::default();
        // Both databases bound the number of placeholders; this stays far below either.
        for some in leases.chunks(500) {
            for row in self.db.write_returning(extend(some, lease_ms)).await? {
                let id = row.parse("id")?;
                if row.get("cancel_requested")? {
                    beat.cancelled.push(id);
                }
                beat.held.push(id);
            }
        }
        Ok(beat)
    }

    /// Records the end of an execution and its artifacts, all or nothing. False, and nothing is
    /// changed, when the lease is no longer held: a late worker's result is not a result.
    pub async fn finish(&self, lease: &Lease, finished: &Finished) -> Result<bool, StoreError> {
        if !finished.status.terminal() {
            return Err(StoreError::Conflict("an execution must finish in a final status"));
        }
        let now = now();
        if finished.files.is_empty() {
            return Ok(self.db.write(end(lease, finished, now)).await? > 0);
        }
        let mut tx = self.db.begin().await?;
        if tx.write(end(lease, finished, now)).await? == 0 {
            return Ok(false);
        }
        insert_artifacts(&mut tx, lease, &finished.files, now).await?;
        tx.commit().await?;
        Ok(true)
    }

    /// Takes leases away from workers that are gone and holds them as `reaper`, which is no worker's name. From here
    /// on a late result is refused, and what the worker left can be cleared away before `reap` ends the execution.
    /// A reaper that dies in between loses its lease like any other, and the next one starts over.
    pub async fn fence(&self, gone: Gone<'_>, reaper: &str, lease_ms: i64) -> Result<Vec<Fenced>, StoreError> {
        let update = sql("UPDATE executions SET owner = $1, lease_until = $2 WHERE status = 'running' AND id IN \
             (SELECT id FROM executions WHERE status = 'running' AND ")
        .bind(reaper)
        .bind(now() + lease_ms * 1000);
        let update = match gone {
            Gone::ExpiredAt(time) => update.push_arg("lease_until < ", time),
            Gone::NotOwnedBy(owner) => update.push_arg("owner <> ", owner),
        };
        // Rows that somebody is changing at this moment are not gone, and waiting for them could end in a deadlock.
        let update = update.push(self.db.skip_locked()).push(") RETURNING id, tenant");
        let rows = self.db.write_returning(update).await?;
        rows.iter().map(|row| Ok(Fenced { execution_id: row.parse("id")?, tenant: row.parse("tenant")? })).collect()
    }

    /// Ends, or queues again, everything that `reaper` has fenced.
    ///
    /// Three statements for three disjoint cases; a crash between them leaves the rest to the next
    /// round. What never reached a guest may run again; what did has an unknown result.
    pub async fn reap(&self, reaper: &str, max_attempts: i32) -> Result<Vec<Reaped>, StoreError> {
        let now = now();
        let cancelled = sql("UPDATE executions SET status = 'cancelled', outcome = 'cancelled', \
             error = $1, finished_at = $2, lease_until = NULL, request = '' \
             WHERE NOT started AND cancel_requested")
        .bind(CANCELLED_BEFORE_START)
        .bind(now);
        let requeued = sql("UPDATE executions SET status = 'queued', owner = NULL, \
             started_at = NULL, lease_until = NULL \
             WHERE NOT started AND NOT cancel_requested AND attempt < $1")
        .bind(i64::from(max_attempts));
        let lost = sql("UPDATE executions SET status = 'failed', outcome = 'lost', error = $1, \
             finished_at = $2, duration_ms = ($2 - COALESCE(started_at, $2)) / 1000, \
             lease_until = NULL, request = '' WHERE (started OR (NOT cancel_requested AND attempt >= $3))")
        .bind(LOST)
        .bind(now)
        .bind(i64::from(max_attempts));

        let mut reaped = Vec::new();
        for (update, requeued) in [(cancelled, false), (requeued, true), (lost, false)] {
            let update = update.push(" AND status = 'running'").push_arg(" AND owner = ", reaper);
            for row in self.db.write_returning(update.push(" RETURNING id, tenant")).await? {
                reaped.push(Reaped::from_row(&row, requeued)?);
            }
        }
        Ok(reaped)
    }
}

impl Reaped {
    fn from_row(row: &Row, requeued: bool) -> Result<Reaped, StoreError> {
        Ok(Reaped { execution_id: row.parse("id")?, tenant: row.parse("tenant")?, requeued })
    }
}

/// Tenants with something queued and room to run it, the one served longest ago first. The
/// recursion hops from tenant to tenant in the index of queued rows, so the cost is the number of
/// waiting tenants and not the length of their queues.
const WAITING_TENANTS: &str = "WITH RECURSIVE waiting (tenant) AS ( \
        SELECT MIN(tenant) FROM executions WHERE status = 'queued' \
        UNION ALL \
        SELECT (SELECT MIN(tenant) FROM executions \
                WHERE status = 'queued' AND tenant > waiting.tenant) \
        FROM waiting WHERE waiting.tenant IS NOT NULL) \
    SELECT id FROM tenants JOIN waiting ON waiting.tenant = tenants.id \
    WHERE max_concurrent IS NULL OR max_concurrent > \
        (SELECT COUNT(*) FROM executions WHERE tenant = tenants.id AND status = 'running') \
    ORDER BY served_at, id";

/// Restricts an update to the execution this lease is for, as long as it is held.
fn held_by<'a>(update: Sql<'a>, lease: &'a Lease) -> Sql<'a> {
    update
        .push_arg(" WHERE id = ", lease.execution_id)
        .push_arg(" AND tenant = ", &lease.tenant)
        .push_arg(" AND owner = ", &lease.owner)
        .push_arg(" AND token = ", lease.token)
        .push(" AND status = 'running'")
}

fn extend(leases: &[Lease], lease_ms: i64) -> Sql<'_> {
    let rows =
        leases.iter().map(|lease| [Arg::from(lease.execution_id), Arg::from(&lease.owner), Arg::from(lease.token)]);
    sql("UPDATE executions SET lease_until = $1 WHERE status = 'running' \
         AND (id, owner, token) IN (VALUES ")
    .bind(now() + lease_ms * 1000)
    .push_rows(rows)
    .push(") RETURNING id, cancel_requested")
}

/// What was asked for goes with the end: it may hold secrets, and is of no more use.
fn end<'a>(lease: &'a Lease, finished: &'a Finished, now: Micros) -> Sql<'a> {
    let update = sql("UPDATE executions SET status = $1, output = $2, logs = $3, error = $4, \
         outcome = $5, exit_code = $6, detail = $7, duration_ms = $8, has_archive = $9, \
         finished_at = $10, lease_until = NULL, request = ''")
    .bind(finished.status)
    .bind(&finished.output)
    .bind(&finished.logs)
    .bind(&finished.error)
    .bind(&finished.outcome)
    .bind(finished.exit_code.map(i64::from))
    .bind(&finished.detail)
    .bind(finished.duration_ms)
    .bind(finished.has_archive)
    .bind(now);
    held_by(update, lease)
}
