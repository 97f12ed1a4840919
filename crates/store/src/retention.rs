//! Retention: deleting executions that ended long ago, and parts of them, in batches. Blobs are not
//! known here. The caller removes the blobs first and the rows after: rows that a crash leaves are
//! found again, but blobs without a row would never be.

use serde_json::Value;
use uuid::Uuid;

use crate::page::{parse_time_cursor, time_cursor};
use crate::row::Row;
use crate::sql::{Arg, Sql, sql};
use crate::{Micros, Store, StoreError, TenantId};

/// An execution that ended before a retention limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpiredExecution {
    pub execution_id: Uuid,
    pub tenant: TenantId,
    /// How often the execution was claimed.
    pub attempts: i32,
    /// Whether any attempt may have left blobs: there are artifacts, or a worker was lost.
    pub may_have_blobs: bool,
    pub finished_at: Micros,
}

const SELECT_EXPIRED: &str = "SELECT id, tenant, attempt, finished_at, \
    (has_archive OR attempt > 1 OR COALESCE(outcome, '') = 'lost') AS may_have_blobs FROM executions \
    WHERE finished_at IS NOT NULL AND finished_at < $1";

impl ExpiredExecution {
    /// For `list_ended_between`, to continue after this one.
    pub fn cursor(&self) -> String {
        time_cursor(self.finished_at, self.execution_id)
    }

    fn from_row(row: &Row) -> Result<ExpiredExecution, StoreError> {
        Ok(ExpiredExecution {
            execution_id: row.parse("id")?,
            tenant: row.parse("tenant")?,
            attempts: row.number("attempt")?,
            may_have_blobs: row.get("may_have_blobs")?,
            finished_at: row.get("finished_at")?,
        })
    }
}

impl Store {
    /// The first executions after a cursor that ended before `until`, sorted by their end.
    pub async fn list_ended_between(
        &self,
        after: Option<&str>,
        until: Micros,
        limit: i64,
    ) -> Result<Vec<ExpiredExecution>, StoreError> {
        let mut select = sql(SELECT_EXPIRED).bind(until);
        if let Some((finished_at, id)) = after.map(parse_time_cursor).transpose()? {
            select = select
                .push_arg(" AND (finished_at, id) > (", finished_at)
                .push_arg(", ", id)
                .push(")");
        }
        self.list_expired(select, limit).await
    }

    /// The first executions that ended before `until` and have no pending webhook: a webhook's
    /// payload is made from the execution.
    pub async fn list_ended_before(
        &self,
        until: Micros,
        limit: i64,
    ) -> Result<Vec<ExpiredExecution>, StoreError> {
        let select = sql(SELECT_EXPIRED)
            .bind(until)
            .push(" AND NOT EXISTS (SELECT 1 FROM webhooks WHERE execution_id = executions.id AND state = 'pending')");
        self.list_expired(select, limit).await
    }

    async fn list_expired(
        &self,
        select: Sql<'_>,
        limit: i64,
    ) -> Result<Vec<ExpiredExecution>, StoreError> {
        let rows = self.db.read(select.push_arg(" ORDER BY finished_at, id LIMIT ", limit)).await?;
        rows.iter().map(ExpiredExecution::from_row).collect()
    }

    /// Deletes the artifacts of ended executions; the caller has removed their blobs.
    pub async fn delete_artifacts(&self, ended: &[ExpiredExecution]) -> Result<(), StoreError> {
        let mut tx = self.db.begin().await?;
        tx.write(add_version_blobs(ended)).await?;
        tx.write(where_column_in(sql("DELETE FROM files WHERE "), "execution_id", ended)).await?;
        tx.write(where_id_in(
            sql("UPDATE executions SET has_archive = FALSE WHERE has_archive AND "),
            ended,
        ))
        .await?;
        tx.commit().await
    }

    /// Deletes the logs of ended executions, including the copies in `detail`.
    pub async fn delete_logs(&self, ended: &[ExpiredExecution]) -> Result<(), StoreError> {
        let mut tx = self.db.begin().await?;
        tx.write(where_column_in(sql("DELETE FROM log_segments WHERE "), "execution_id", ended))
            .await?;
        for row in
            tx.query(where_id_in(sql("SELECT id, detail FROM executions WHERE "), ended)).await?
        {
            let detail = row.json_opt::<Value>("detail")?.map(without_streams);
            let update = sql("UPDATE executions SET logs = '', detail = $2 WHERE id = $1")
                .bind(row.get::<&str>("id")?)
                .bind(detail.map(|detail| detail.to_string()));
            tx.write(update).await?;
        }
        tx.commit().await
    }

    /// Deletes the log segments of some executions that ended before `until` and have their whole
    /// log in the row. Returns the number of deleted segments.
    pub async fn delete_log_segments(
        &self,
        until: Micros,
        executions: i64,
    ) -> Result<u64, StoreError> {
        let delete = sql("DELETE FROM log_segments WHERE execution_id IN \
             (SELECT DISTINCT execution_id FROM log_segments JOIN executions ON executions.id = execution_id \
              WHERE finished_at < $1 LIMIT $2)")
        .bind(until)
        .bind(executions);
        self.db.write(delete).await
    }

    /// Deletes ended executions with all their rows; the caller has removed their blobs.
    pub async fn delete_executions(&self, ended: &[ExpiredExecution]) -> Result<(), StoreError> {
        let mut tx = self.db.begin().await?;
        tx.write(add_version_blobs(ended)).await?;
        for table in [
            "DELETE FROM log_segments WHERE ", "DELETE FROM webhooks WHERE ",
            "DELETE FROM files WHERE ",
        ] {
            tx.write(where_column_in(sql(table), "execution_id", ended)).await?;
        }
        tx.write(where_id_in(sql("DELETE FROM executions WHERE "), ended)).await?;
        tx.commit().await
    }
}

/// Restricts a statement to these executions. They have ended, so none of them changes any more.
fn where_id_in<'a>(sql: Sql<'a>, ended: &'a [ExpiredExecution]) -> Sql<'a> {
    where_column_in(sql, "id", ended)
}

/// The same for a table that refers to its execution in `column`.
fn where_column_in<'a>(
    sql: Sql<'a>,
    column: &'static str,
    ended: &'a [ExpiredExecution],
) -> Sql<'a> {
    let ids = ended.iter().map(|ended| [Arg::from(ended.execution_id)]);
    // VALUES must not be empty; NULL matches no row.
    sql.push(column)
        .push(" IN (VALUES (NULL)")
        .push(if ended.is_empty() { "" } else { ", " })
        .push_rows(ids)
        .push(")")
}

/// Registers the blobs of later versions of artifacts as pending: they were uploaded, so they are
/// not below the blob prefix of the execution that the caller has removed.
fn add_version_blobs(ended: &[ExpiredExecution]) -> Sql<'_> {
    let insert = sql("INSERT INTO loose_blobs (blob_key, tenant, noted_at) \
         SELECT blob_key, tenant, 0 FROM files WHERE parent_id IS NOT NULL AND ");
    where_column_in(insert, "execution_id", ended).push(" ON CONFLICT (blob_key) DO NOTHING")
}

fn without_streams(mut detail: Value) -> Value {
    if let Some(fields) = detail.as_object_mut() {
        fields.remove("stdout");
        fields.remove("stderr");
    }
    detail
}
