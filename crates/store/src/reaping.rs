//! Reaping: what becomes of executions whose worker is gone.

use uuid::Uuid;

use crate::cancels::CANCELLED_BEFORE_START;
use crate::db::Tx;
use crate::row::Row;
use crate::sql::{Sql, sql};
use crate::webhooks::enqueue_webhook;
use crate::{Micros, Store, StoreError, TenantId, now};

/// An execution whose worker is gone and which nobody has ended yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FencedExecution {
    pub execution_id: Uuid,
    pub tenant: TenantId,
    /// Of the lease that was taken away.
    pub token: i64,
}

/// What became of an execution whose worker is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReapedExecution {
    pub execution_id: Uuid,
    pub tenant: TenantId,
    /// Queued again; otherwise it has ended.
    pub requeued: bool,
}

/// Whose leases are to be taken away.
#[derive(Debug, Clone, Copy)]
pub enum StaleLeases<'a> {
    /// Of workers that were silent until now, by the database's clock.
    Expired,
    /// Of workers that are silent until this time, by the same clock.
    ExpiredAt(Micros),
    /// Of everybody but this owner. For an embedded server that has just started: it holds the lock
    /// of the data directory, so all other owners are dead.
    NotOwnedBy(&'a str),
}

const LOST: &str = "The worker that ran this execution went away, so its result is unknown. \
    Run it again if doing its work twice is safe.";

impl Store {
    /// Takes leases away from workers that are gone and holds them as `reaper`, which is no
    /// worker's name. From here on a late result is refused, and what the worker left can be
    /// cleared away before `reap` ends the execution. A reaper that dies in between loses its lease
    /// like any other, and the next one starts over.
    pub async fn fence(
        &self,
        gone: StaleLeases<'_>,
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
        let update = match gone {
            StaleLeases::Expired => update.push("lease_until < ").push(self.db.clock()),
            StaleLeases::ExpiredAt(time) => update.push_arg("lease_until < ", time),
            StaleLeases::NotOwnedBy(owner) => update.push_arg("owner <> ", owner),
        };
        // Rows that somebody is changing at this moment are not gone, and waiting for them could
        // end in a deadlock.
        let update = update.push(self.db.skip_locked()).push(") RETURNING id, tenant, token");
        let rows = self.db.write_returning(update).await?;
        rows.iter().map(FencedExecution::from_row).collect()
    }

    /// Ends, or queues again, everything that `reaper` has fenced.
    ///
    /// Three statements for three disjoint cases. What never reached a guest may run again, and so
    /// may what an idempotent skill did; anything else that reached one has an unknown result.
    pub async fn reap(
        &self,
        reaper: &str,
        max_attempts: i32,
    ) -> Result<Vec<ReapedExecution>, StoreError> {
        let (now, max_attempts) = (now(), i64::from(max_attempts));
        let cases = [
            (cancelled(now), false),
            (requeued(max_attempts), true),
            (lost(now, max_attempts), false),
        ];
        let mut reaped = Vec::new();
        let mut tx = self.db.begin().await?;
        let mut said = Vec::new();
        for (update, requeued) in cases {
            let update = update.push(" AND status = 'running'").push_arg(" AND owner = ", reaper);
            let update = match requeued {
                true => update.push(" RETURNING id, tenant, 'queued' AS notification"),
                false => update.push(" RETURNING id, tenant, 'ended:' || id AS notification"),
            };
            let rows = tx.all(self.with_notification(update)).await?;
            for row in &rows {
                reaped.push(ReapedExecution::end(&mut tx, row, requeued, now).await?);
            }
            said.extend(rows);
        }
        tx.commit().await?;
        self.notify_local(&said)?;
        Ok(reaped)
    }
}

fn cancelled<'a>(now: Micros) -> Sql<'a> {
    sql("UPDATE executions SET status = 'cancelled', outcome = 'cancelled', \
         error = $1, finished_at = $2, lease_until = NULL, request = '' \
         WHERE NOT started AND cancel_requested")
    .bind(CANCELLED_BEFORE_START)
    .bind(now)
}

fn requeued<'a>(max_attempts: i64) -> Sql<'a> {
    sql("UPDATE executions SET status = 'queued', owner = NULL, started = FALSE, \
         started_at = NULL, lease_until = NULL \
         WHERE (NOT started OR idempotent) AND NOT cancel_requested AND attempt < $1")
    .bind(max_attempts)
}

fn lost<'a>(now: Micros, max_attempts: i64) -> Sql<'a> {
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
    async fn end(
        tx: &mut Tx,
        row: &Row,
        requeued: bool,
        now: Micros,
    ) -> Result<ReapedExecution, StoreError> {
        let execution_id = row.parse("id")?;
        if !requeued {
            enqueue_webhook(tx, execution_id, now).await?;
        }
        Ok(ReapedExecution { execution_id, tenant: row.parse("tenant")?, requeued })
    }
}
