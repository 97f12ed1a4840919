//! Reaping: requeueing or ending executions whose worker is dead.
//!
//! It has two phases. `fence` takes the leases away, so that late results are rejected. The reaper
//! then removes what the workers left in blob storage. `reap` decides about the executions.

use uuid::Uuid;

use crate::cancellation::CANCELLED_BEFORE_START;
use crate::db::Tx;
use crate::row::Row;
use crate::sql::{Sql, sql};
use crate::webhooks::enqueue_webhook;
use crate::{Micros, Store, StoreError, TenantId, now};

/// An execution whose lease was taken away and that `reap` has not handled yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FencedExecution {
    pub execution_id: Uuid,
    pub tenant: TenantId,
    /// The fencing token of the lease that was taken away.
    pub token: i64,
}

/// What `reap` did with an execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReapedExecution {
    pub execution_id: Uuid,
    pub tenant: TenantId,
    /// Requeued; otherwise it has ended.
    pub requeued: bool,
}

/// Which leases to take away.
#[derive(Debug, Clone, Copy)]
pub enum StaleLeases<'a> {
    /// Leases that have expired, by the database's clock.
    Expired,
    /// Leases that will have expired at this time, by the same clock.
    ExpiredAt(Micros),
    /// All leases but those of this owner. For an embedded server that has just started: it holds
    /// the lock of the data directory, so all other owners are dead.
    NotOwnedBy(&'a str),
}

const LOST: &str = "The worker that ran this execution was lost, so its result is unknown. \
    Run it again if that is safe.";

impl Store {
    /// Takes stale leases over for `reaper`, which must not be the name of a worker. From now on
    /// late results are rejected, so the workers' leftovers can be removed before `reap`. A reaper
    /// that dies in between loses these leases like any other, and the next reaper starts again.
    pub async fn fence(
        &self,
        stale: StaleLeases<'_>,
        reaper: &str,
        lease_ms: i64,
    ) -> Result<Vec<FencedExecution>, StoreError> {
        let update = sql("UPDATE executions SET owner = $1, lease_until = ")
            .push(self.db.clock())
            .push(
                " + $2 WHERE status = 'running' AND id IN \
                 (SELECT id FROM executions WHERE status = 'running' AND ",
            )
            .bind(reaper)
            .bind(lease_ms * 1000);
        let update = match stale {
            StaleLeases::Expired => update.push("lease_until < ").push(self.db.clock()),
            StaleLeases::ExpiredAt(time) => update.push_arg("lease_until < ", time),
            StaleLeases::NotOwnedBy(owner) => update.push_arg("owner <> ", owner),
        };
        // A row that another transaction changes at this moment has a live worker. Waiting for its
        // lock could also deadlock, because this statement locks several rows in no fixed order.
        let update = update.push(self.db.skip_locked()).push(") RETURNING id, tenant, token");
        let rows = self.db.write_returning(update).await?;
        rows.iter().map(FencedExecution::from_row).collect()
    }

    /// Ends or requeues all executions that `reaper` has fenced.
    ///
    /// Three statements for three disjoint cases. An execution whose job never reached a guest, or
    /// whose skill is idempotent, may run again; for any other the result is unknown.
    pub async fn reap(
        &self,
        reaper: &str,
        max_attempts: i32,
    ) -> Result<Vec<ReapedExecution>, StoreError> {
        let (now, max_attempts) = (now(), i64::from(max_attempts));
        let cases = [
            (end_cancelled(now), false),
            (requeue_retryable(max_attempts), true),
            (end_lost(now, max_attempts), false),
        ];
        let mut reaped = Vec::new();
        let mut tx = self.db.begin().await?;
        // Sent only after the commit; see `with_notification`.
        let mut changed = Vec::new();
        for (update, requeued) in cases {
            let update = update.push(" AND status = 'running'").push_arg(" AND owner = ", reaper);
            let update = match requeued {
                true => update.push(" RETURNING id, tenant, 'queued' AS notification"),
                false => update.push(" RETURNING id, tenant, 'ended:' || id AS notification"),
            };
            let rows = tx.query(self.with_notification(update)).await?;
            for row in &rows {
                reaped.push(ReapedExecution::from_row(&mut tx, row, requeued, now).await?);
            }
            changed.extend(rows);
        }
        tx.commit().await?;
        self.notify_local(&changed)?;
        Ok(reaped)
    }
}

fn end_cancelled<'a>(now: Micros) -> Sql<'a> {
    sql("UPDATE executions SET status = 'cancelled', outcome = 'cancelled', \
         error = $1, finished_at = $2, lease_until = NULL, request = '' \
         WHERE NOT started AND cancel_requested")
    .bind(CANCELLED_BEFORE_START)
    .bind(now)
}

fn requeue_retryable<'a>(max_attempts: i64) -> Sql<'a> {
    sql("UPDATE executions SET status = 'queued', owner = NULL, started = FALSE, \
         started_at = NULL, lease_until = NULL \
         WHERE (NOT started OR idempotent) AND NOT cancel_requested AND attempt < $1")
    .bind(max_attempts)
}

fn end_lost<'a>(now: Micros, max_attempts: i64) -> Sql<'a> {
    sql("UPDATE executions SET status = 'failed', outcome = 'lost', error = $1, \
         finished_at = $2, duration_ms = ($2 - COALESCE(started_at, $2)) / 1000, \
         lease_until = NULL, request = '' WHERE ((started AND (cancel_requested OR NOT idempotent)) \
         OR (NOT cancel_requested AND attempt >= $3))")
    .bind(LOST)
    .bind(now)
    .bind(max_attempts)
}

impl FencedExecution {
    fn from_row(row: &Row) -> Result<FencedExecution, StoreError> {
        Ok(FencedExecution {
            execution_id: row.parse("id")?,
            tenant: row.parse("tenant")?,
            token: row.get("token")?,
        })
    }
}

impl ReapedExecution {
    async fn from_row(
        tx: &mut Tx,
        row: &Row,
        requeued: bool,
        now: Micros,
    ) -> Result<ReapedExecution, StoreError> {
        let execution_id = row.parse("id")?;
        if !requeued {
            // In the transaction that ends the execution, so that the webhook cannot get lost.
            enqueue_webhook(tx, execution_id, now).await?;
        }
        Ok(ReapedExecution { execution_id, tenant: row.parse("tenant")?, requeued })
    }
}
