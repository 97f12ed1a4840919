//! Webhooks: one call per execution that requested it, pending from the transaction that ends the
//! execution until it is delivered or given up. How calls are made is not known here.

use serde_json::json;
use uuid::Uuid;

use crate::db::Tx;
use crate::row::Row;
use crate::sql::sql;
use crate::string_enum::string_enum;
use crate::{Micros, NewAuditRecord, Store, StoreError, TenantId, now};

string_enum! {
    WebhookState, "webhook state" {
        Pending = "pending",
        Delivered = "delivered",
        /// Given up after the last attempt.
        Dead = "dead",
    }
}

/// A call to make, or its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Webhook {
    pub execution_id: Uuid,
    pub tenant: TenantId,
    pub url: String,
    pub state: WebhookState,
    /// The number of the attempt, from 1. It is also the fencing token: the result of an earlier
    /// attempt changes nothing.
    pub attempt: i32,
    /// Why the last attempt failed.
    pub last_error: Option<String>,
    pub created_at: Micros,
}

/// The delays after each failed attempt, in seconds: ten attempts within 24 hours.
const RETRY_DELAYS_S: [i64; 9] = [10, 30, 120, 600, 1800, 3600, 7200, 21_600, 43_200];

const COLUMNS: &str = " execution_id, tenant, url, state, attempts, last_error, created_at";

impl Webhook {
    fn from_row(row: &Row) -> Result<Webhook, StoreError> {
        Ok(Webhook {
            execution_id: row.parse("execution_id")?,
            tenant: row.parse("tenant")?,
            url: row.get("url")?,
            state: row.parse("state")?,
            attempt: row.number("attempts")?,
            last_error: row.get("last_error")?,
            created_at: row.get("created_at")?,
        })
    }
}

impl Store {
    /// Claims calls that are due. Each belongs to the caller for `lease_ms`; then it is due again,
    /// so the calls of a process that died are made by another.
    pub async fn claim_webhooks(
        &self,
        now: Micros,
        limit: i64,
        lease_ms: i64,
    ) -> Result<Vec<Webhook>, StoreError> {
        let update = sql("UPDATE webhooks SET attempts = attempts + 1, next_at = $2, updated_at = $1 \
             WHERE state = 'pending' AND execution_id IN \
             (SELECT execution_id FROM webhooks WHERE state = 'pending' AND next_at <= $1 ORDER BY next_at LIMIT $3")
        .bind(now)
        .bind(now + lease_ms * 1000)
        .bind(limit)
        .push(self.db.skip_locked())
        .push(") RETURNING")
        .push(COLUMNS);
        let rows = self.db.write_returning(update).await?;
        rows.iter().map(Webhook::from_row).collect()
    }

    /// False when the lease of this attempt expired and another attempt was made.
    pub async fn mark_webhook_delivered(&self, webhook: &Webhook) -> Result<bool, StoreError> {
        let update =
            sql("UPDATE webhooks SET state = 'delivered', last_error = NULL, updated_at = $3 \
             WHERE execution_id = $1 AND attempts = $2 AND state = 'pending'")
            .bind(webhook.execution_id)
            .bind(i64::from(webhook.attempt))
            .bind(now());
        Ok(self.db.write(update).await? > 0)
    }

    /// Records a failed attempt; returns when the next one is due. After the last attempt the call
    /// is given up and there is none.
    pub async fn record_webhook_failure(
        &self,
        webhook: &Webhook,
        error: &str,
    ) -> Result<Option<Micros>, StoreError> {
        let next_at = retry_delay_s(webhook.attempt).map(|seconds| now() + seconds * 1_000_000);
        self.record_failed_attempt(webhook, next_at, error).await?;
        Ok(next_at)
    }

    /// Gives up a call before its last attempt, because the receiver rejected it for good.
    pub async fn give_up_webhook(&self, webhook: &Webhook, error: &str) -> Result<(), StoreError> {
        self.record_failed_attempt(webhook, None, error).await
    }

    /// Records a failed attempt. A call that is given up gets an audit entry.
    async fn record_failed_attempt(
        &self,
        webhook: &Webhook,
        next_at: Option<Micros>,
        error: &str,
    ) -> Result<(), StoreError> {
        let now = now();
        let state = if next_at.is_some() { WebhookState::Pending } else { WebhookState::Dead };
        let mut tx = self.db.begin().await?;
        let update =
            sql("UPDATE webhooks SET state = $3, next_at = $4, last_error = $5, updated_at = $6 \
             WHERE execution_id = $1 AND attempts = $2 AND state = 'pending'")
            .bind(webhook.execution_id)
            .bind(i64::from(webhook.attempt))
            .bind(state)
            .bind(next_at.unwrap_or(now))
            .bind(error)
            .bind(now);
        if tx.write(update).await? > 0 && next_at.is_none() {
            let given_up = NewAuditRecord {
                actor: None,
                action: "webhook.give_up".to_owned(),
                object: webhook.execution_id.to_string(),
                detail: json!({ "attempts": webhook.attempt, "error": error }),
                request_id: None,
            };
            self.append(&mut tx, &webhook.tenant, &given_up).await?;
        }
        tx.commit().await
    }

    /// The webhook of an execution; `None` when it has not ended, or requested none.
    pub async fn get_webhook(
        &self,
        tenant: &TenantId,
        execution_id: Uuid,
    ) -> Result<Option<Webhook>, StoreError> {
        let select = sql("SELECT")
            .push(COLUMNS)
            .push_arg(" FROM webhooks WHERE tenant = ", tenant)
            .push_arg(" AND execution_id = ", execution_id);
        let row = self.db.read_one(select).await?;
        row.as_ref().map(Webhook::from_row).transpose()
    }
}

/// Enqueues the webhook of an execution that this transaction ends, if it requested one.
pub(crate) async fn enqueue_webhook(
    tx: &mut Tx,
    execution_id: Uuid,
    now: Micros,
) -> Result<(), StoreError> {
    let insert =
        sql("INSERT INTO webhooks (execution_id, tenant, url, state, attempts, next_at, created_at, updated_at) \
         SELECT id, tenant, webhook, 'pending', 0, $2, $2, $2 FROM executions WHERE id = $1 AND webhook IS NOT NULL")
        .bind(execution_id)
        .bind(now);
    tx.write(insert).await.map(drop)
}

fn retry_delay_s(attempt: i32) -> Option<i64> {
    let index = usize::try_from(attempt).ok()?.checked_sub(1)?;
    RETRY_DELAYS_S.get(index).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_attempts_fit_into_a_day() {
        let delays: Vec<i64> = (1..100).map_while(retry_delay_s).collect();
        assert_eq!(delays.len() + 1, 10);
        assert!(delays.is_sorted() && delays.iter().sum::<i64>() < 24 * 3600);
        assert_eq!(retry_delay_s(0), None);
    }
}
