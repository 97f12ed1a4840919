//! Retention: what ended long ago, in small batches, so that it can be forgotten bit by bit. Blobs
//! are not known here: the caller removes them first and the rows after, so that what a crash
//! leaves is found again.

use serde_json::Value;
use uuid::Uuid;

use crate::page::{age_cursor, parse_age_cursor};
use crate::row::Row;
use crate::sql::{Arg, Sql, sql};
use crate::{Micros, Store, StoreError, TenantId};

/// An execution that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpiredExecution {
    pub execution_id: Uuid,
    pub tenant: TenantId,
    /// How often it was taken up.
    pub attempts: i32,
    /// Whether any of them may have left blobs: it has artifacts, or a worker was lost.
    pub may_have_blobs: bool,
    pub finished_at: Micros,
}

const ENDED: &str = "SELECT id, tenant, attempt, finished_at, \
    (has_archive OR attempt > 1 OR COALESCE(outcome, '') = 'lost') AS may_have_blobs FROM executions \
    WHERE finished_at IS NOT NULL AND finished_at < $1";

impl ExpiredExecution {
    /// What `list_ended_between` takes to go on behind this one.
    pub fn cursor(&self) -> String {
        age_cursor(self.finished_at, self.execution_id)
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
    /// The first executions behind a cursor that ended before `until`, by their end.
    pub async fn list_ended_between(
        &self,
        after: Option<&str>,
        until: Micros,
        limit: i64,
    ) -> Result<Vec<ExpiredExecution>, StoreError> {
        let mut select = sql(ENDED).bind(until);
        if let Some((finished_at, id)) = after.map(parse_age_cursor).transpose()? {
            select = select
                .push_arg(" AND (finished_at, id) > (", finished_at)
                .push_arg(", ", id)
                .push(")");
        }
        self.ended(select, limit).await
    }

    /// The first executions that ended before `until`, without those that are still owed a webhook,
    /// which tells of them and so needs them.
    pub async fn list_ended_before(
        &self,
        until: Micros,
        limit: i64,
    ) -> Result<Vec<ExpiredExecution>, StoreError> {
        let select = sql(ENDED)
            .bind(until)
            .push(" AND NOT EXISTS (SELECT 1 FROM webhooks WHERE execution_id = executions.id AND state = 'pending')");
        self.ended(select, limit).await
    }

    async fn ended(
        &self,
        select: Sql<'_>,
        limit: i64,
    ) -> Result<Vec<ExpiredExecution>, StoreError> {
        let rows = self.db.read(select.push_arg(" ORDER BY finished_at, id LIMIT ", limit)).await?;
        rows.iter().map(ExpiredExecution::from_row).collect()
    }

    /// Forgets the artifacts of ended executions; their blobs are gone already.
    pub async fn delete_artifacts(&self, ended: &[ExpiredExecution]) -> Result<(), StoreError> {
        let mut tx = self.db.begin().await?;
        tx.write(note_versions(ended)).await?;
        tx.write(of_column(sql("DELETE FROM files WHERE "), "execution_id", ended)).await?;
        tx.write(of(
            sql("UPDATE executions SET has_archive = FALSE WHERE has_archive AND "),
            ended,
        ))
        .await?;
        tx.commit().await
    }

    /// Forgets the logs of ended executions, the copies of them in `detail` too.
    pub async fn delete_logs(&self, ended: &[ExpiredExecution]) -> Result<(), StoreError> {
        let mut tx = self.db.begin().await?;
        tx.write(of_column(sql("DELETE FROM log_segments WHERE "), "execution_id", ended)).await?;
        for row in tx.all(of(sql("SELECT id, detail FROM executions WHERE "), ended)).await? {
            let detail = row.json_opt::<Value>("detail")?.map(without_streams);
            let update = sql("UPDATE executions SET logs = '', detail = $2 WHERE id = $1")
                .bind(row.get::<&str>("id")?)
                .bind(detail.map(|detail| detail.to_string()));
            tx.write(update).await?;
        }
        tx.commit().await
    }

    /// Forgets the followed pieces of the logs of some executions that ended before `until` and now
    /// have them whole. Answers how many pieces that were.
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

    /// Forgets ended executions with all that is stored of them; their blobs are gone already.
    pub async fn delete_executions(&self, ended: &[ExpiredExecution]) -> Result<(), StoreError> {
        let mut tx = self.db.begin().await?;
        tx.write(note_versions(ended)).await?;
        for table in [
            "DELETE FROM log_segments WHERE ", "DELETE FROM webhooks WHERE ",
            "DELETE FROM files WHERE ",
        ] {
            tx.write(of_column(sql(table), "execution_id", ended)).await?;
        }
        tx.write(of(sql("DELETE FROM executions WHERE "), ended)).await?;
        tx.commit().await
    }
}

/// Restricts a statement on executions to these; none of them changes any more.
fn of<'a>(sql: Sql<'a>, ended: &'a [ExpiredExecution]) -> Sql<'a> {
    of_column(sql, "id", ended)
}

/// The same for a table that names its execution in `column`.
fn of_column<'a>(sql: Sql<'a>, column: &'static str, ended: &'a [ExpiredExecution]) -> Sql<'a> {
    let ids = ended.iter().map(|ended| [Arg::from(ended.execution_id)]);
    // An empty list is no SQL; NULL is in none.
    sql.push(column)
        .push(" IN (VALUES (NULL)")
        .push(if ended.is_empty() { "" } else { ", " })
        .push_rows(ids)
        .push(")")
}

/// Later versions of artifacts were uploaded, and lie elsewhere than what their executions left.
fn note_versions(ended: &[ExpiredExecution]) -> Sql<'_> {
    let insert = sql("INSERT INTO loose_blobs (blob_key, tenant, noted_at) \
         SELECT blob_key, tenant, 0 FROM files WHERE parent_id IS NOT NULL AND ");
    of_column(insert, "execution_id", ended).push(" ON CONFLICT (blob_key) DO NOTHING")
}

fn without_streams(mut detail: Value) -> Value {
    if let Some(fields) = detail.as_object_mut() {
        fields.remove("stdout");
        fields.remove("stderr");
    }
    detail
}
