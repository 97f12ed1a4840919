//! Claims: which queued execution a worker takes next.
//!
//! Claims are fair across tenants by stride scheduling. Each tenant has a pass value. The tenant
//! with the lowest pass among those with queued executions is served, and its pass advances by a
//! stride divided by its weight. In the long run, competing tenants are served in proportion to
//! their weights, however many executions each has queued. A tenant whose queue was empty starts at
//! the position of the queue: an idle tenant does not save up credit.

use crate::executions::count_running;
use crate::sql::{Sql, sql};
use crate::{Execution, Lease, Micros, Store, StoreError, TenantId, now};

/// How far a claim advances the pass of a tenant of weight 1. It is large compared with the maximum
/// weight of 1,000, so that integer division stays precise.
const STRIDE: i64 = 1_000_000;

impl Store {
    /// Claims the oldest queued execution of the tenant with the lowest pass, skipping tenants that
    /// already run as many as their policy allows.
    pub async fn claim_next(
        &self,
        owner: &str,
        lease_ms: i64,
    ) -> Result<Option<(Execution, Lease)>, StoreError> {
        // The order is read without a lock, so it may be stale. If another worker claims the last
        // execution of a tenant first, `claim_from` returns None and the next tenant is tried.
        for row in self.db.read(sql(TENANTS_IN_TURN)).await? {
            let (tenant, turn) = (row.parse("id")?, row.get("turn")?);
            if let Some(claimed) = self.claim_from(&tenant, turn, owner, lease_ms).await? {
                return Ok(Some(claimed));
            }
        }
        Ok(None)
    }

    async fn claim_from(
        &self,
        tenant: &TenantId,
        turn: i64,
        owner: &str,
        lease_ms: i64,
    ) -> Result<Option<(Execution, Lease)>, StoreError> {
        let now = now();
        let mut tx = self.db.begin().await?;
        // SKIP LOCKED: workers that claim at the same time take different rows instead of waiting
        // for each other. The token rises with each claim and fences off every earlier lease.
        let claim = sql(
            "UPDATE executions SET status = 'running', owner = $2, token = token + 1, \
             attempt = attempt + 1, started_at = $3, lease_until = ",
        )
        .push(self.db.clock())
        .push(
            " + $4 WHERE id = (SELECT id FROM executions WHERE tenant = $1 AND status = 'queued' \
              ORDER BY created_at, id LIMIT 1",
        )
        .bind(tenant)
        .bind(owner)
        .bind(now)
        .bind(lease_ms * 1000)
        .push(self.db.skip_locked())
        .push(")");
        let claim = Execution::returning(claim).push(", token").push(self.db.without_flush());
        let Some(row) = tx.query_one(claim).await? else {
            return Ok(None);
        };
        // This update locks the tenant's row until the commit, so concurrent claims for one tenant
        // count its running executions one after the other and cannot exceed `max_concurrent`.
        //
        // The lock is also why the commit is asynchronous: a disk flush would be held inside it. If
        // a crash of the database loses the commit, the execution is still queued and nothing has
        // run: a job is sent only after `mark_started` is flushed, which flushes the claim before
        // it, and which finds no lease if the claim was lost (decision 0028).
        let advanced = tx.query_one(advance_pass(tenant, turn, now)).await?;
        if let Some(advanced) = advanced
            && let Some(max_concurrent) = advanced.get::<Option<i64>>("max_concurrent")?
            && let Some(running) = tx.query_one(count_running(tenant)).await?
            && running.get::<i64>("count")? > max_concurrent
        {
            // Dropping the transaction rolls back the claim.
            return Ok(None);
        }
        tx.commit().await?;
        let execution = Execution::from_row(&row)?;
        let lease = Lease {
            execution_id: execution.id,
            tenant: tenant.clone(),
            owner: owner.to_owned(),
            token: row.get("token")?,
            webhook: execution.webhook.is_some(),
        };
        Ok(Some((execution, lease)))
    }
}

/// Advances the tenant's pass by one claim. The new value depends on the stored pass as well as on
/// `turn`: several workers may have read the same turn, and each of their claims must count.
fn advance_pass(tenant: &TenantId, turn: i64, now: Micros) -> Sql<'_> {
    sql("UPDATE tenants SET served_at = $3, \
         served_pass = CASE WHEN pass < $2 THEN $2 ELSE pass END, \
         pass = CASE WHEN pass < $2 THEN $2 ELSE pass END + $4 / weight \
         WHERE id = $1 RETURNING max_concurrent")
    .bind(tenant)
    .bind(turn)
    .bind(now)
    .bind(STRIDE)
}

/// Tenants that have something queued and may run it, in the order of their turns.
///
/// The recursion jumps from tenant to tenant in the index of queued rows, so the cost is the number
/// of waiting tenants, not the length of their queues. `MIN(tenant)` would be equivalent, but
/// Postgres reads the whole queue for it when its statistics date from a time with an empty queue.
///
/// The position of the queue is the highest pass at which any tenant was served. It replaces lower
/// passes, which belong to tenants that were idle.
const TENANTS_IN_TURN: &str = "WITH RECURSIVE waiting (tenant) AS ( \
        SELECT (SELECT tenant FROM executions WHERE status = 'queued' ORDER BY tenant LIMIT 1) \
        UNION ALL \
        SELECT (SELECT tenant FROM executions \
                WHERE status = 'queued' AND tenant > waiting.tenant ORDER BY tenant LIMIT 1) \
        FROM waiting WHERE waiting.tenant IS NOT NULL), \
    queue (queue_pass) AS (SELECT MAX(served_pass) FROM tenants) \
    SELECT id, CASE WHEN pass < queue_pass THEN queue_pass ELSE pass END AS turn, served_at \
    FROM tenants JOIN waiting ON waiting.tenant = tenants.id CROSS JOIN queue \
    WHERE max_concurrent IS NULL OR max_concurrent > \
        (SELECT COUNT(*) FROM executions WHERE tenant = tenants.id AND status = 'running') \
    ORDER BY turn, served_at, id";
