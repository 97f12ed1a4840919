//! Claims: which queued execution a worker takes up next.
//!
//! Fair across tenants by stride scheduling. Each tenant has a pass; the waiting tenant with the
//! lowest is served and its pass moves on by a stride that is shorter the more it weighs, so in the
//! long run tenants that wait are served in proportion to their weights, however much each of them
//! has queued. Who had nothing to do meanwhile starts where the queue stands now: an idle tenant
//! saves nothing up.

use crate::executions::count_running;
use crate::sql::sql;
use crate::{Execution, Lease, Micros, Store, StoreError, TenantId, now};

/// How far a claim moves a tenant of weight 1. Weights up to 1,000 divide it well enough.
const STRIDE: i64 = 1_000_000;

impl Store {
    /// Takes up the oldest queued execution of the tenant whose turn it is, passing over tenants
    /// that already run as many as their policy allows.
    pub async fn claim_next(
        &self,
        owner: &str,
        lease_ms: i64,
    ) -> Result<Option<(Execution, Lease)>, StoreError> {
        for row in self.db.read(sql(WAITING_TENANTS)).await? {
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
        let Some(row) = tx.one(claim).await? else {
            return Ok(None);
        };
        // From here on this tenant's row is locked, so claims for it count what runs one by one.
        // That is why a claim does not wait for the disk. If the database forgets it in a crash,
        // the execution waits as before: no job is sent before `mark_started` is on the disk, which
        // it is not without the claim, and which then finds no lease.
        let served = tx.one(serve(tenant, turn, now)).await?;
        if let Some(served) = served
            && let Some(max_concurrent) = served.get::<Option<i64>>("max_concurrent")?
            && let Some(running) = tx.one(count_running(tenant)).await?
            && running.get::<i64>("count")? > max_concurrent
        {
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

/// Moves the tenant's pass on. Several workers may have seen the same turn: the pass counts each of
/// them.
fn serve(tenant: &TenantId, turn: i64, now: Micros) -> crate::sql::Sql<'_> {
    sql("UPDATE tenants SET served_at = $3, \
         served_pass = CASE WHEN pass < $2 THEN $2 ELSE pass END, \
         pass = CASE WHEN pass < $2 THEN $2 ELSE pass END + $4 / weight \
         WHERE id = $1 RETURNING max_concurrent")
    .bind(tenant)
    .bind(turn)
    .bind(now)
    .bind(STRIDE)
}

/// Tenants with something queued and room to run it, the one whose turn it is first. The recursion
/// hops from tenant to tenant in the index of queued rows, so the cost is the number of waiting
/// tenants and not the length of their queues. (`MIN(tenant)` would say the same, and Postgres
/// reads the whole queue for it when its statistics are of a time at which nothing waited.) The
/// queue stands where the furthest tenant was served last.
const WAITING_TENANTS: &str = "WITH RECURSIVE waiting (tenant) AS ( \
        SELECT (SELECT tenant FROM executions WHERE status = 'queued' ORDER BY tenant LIMIT 1) \
        UNION ALL \
        SELECT (SELECT tenant FROM executions \
                WHERE status = 'queued' AND tenant > waiting.tenant ORDER BY tenant LIMIT 1) \
        FROM waiting WHERE waiting.tenant IS NOT NULL), \
    queue (stands_at) AS (SELECT MAX(served_pass) FROM tenants) \
    SELECT id, CASE WHEN pass < stands_at THEN stands_at ELSE pass END AS turn, served_at \
    FROM tenants JOIN waiting ON waiting.tenant = tenants.id CROSS JOIN queue \
    WHERE max_concurrent IS NULL OR max_concurrent > \
        (SELECT COUNT(*) FROM executions WHERE tenant = tenants.id AND status = 'running') \
    ORDER BY turn, served_at, id";
