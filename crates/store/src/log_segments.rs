//! Log segments: the log of a running execution that a client follows, stored as it grows. A
//! segment is identified by its end offset in the whole log, so a client can continue anywhere, and
//! in the final log after the segments were deleted.

use uuid::Uuid;

use crate::row::Row;
use crate::sql::{Arg, sql};
use crate::string_enum::string_enum;
use crate::{Lease, Micros, Store, StoreError, TenantId};

string_enum! {
    /// The output stream of a script that a log segment came from.
    LogStream, "log stream" {
        Stdout = "stdout",
        Stderr = "stderr",
        /// Both streams in one, or unknown.
        Merged = "merged",
    }
}

/// A segment of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSegment {
    /// The offset of the end of this segment in the log, in bytes.
    pub ends_at: i64,
    pub stream: LogStream,
    pub written_at: Micros,
    pub text: String,
}

impl LogSegment {
    fn from_row(row: &Row) -> Result<LogSegment, StoreError> {
        Ok(LogSegment {
            ends_at: row.get("ends_at")?,
            stream: row.parse("stream")?,
            written_at: row.get("written_at")?,
            text: row.get("text")?,
        })
    }
}

impl Store {
    /// Marks an execution as watched, because a client follows its log, and notifies its worker.
    /// True when it has not ended yet.
    ///
    /// A queued execution is notified as queued once more: this update locks its row, and a worker
    /// that claims at this moment skips locked rows and would not retry.
    pub async fn mark_watched(&self, tenant: &TenantId, id: Uuid) -> Result<bool, StoreError> {
        let update = sql("UPDATE executions SET watched = TRUE \
             WHERE tenant = $1 AND id = $2 AND status IN ('queued', 'running') \
             RETURNING CASE status WHEN 'running' THEN 'watch:' || id ELSE 'queued' END AS notification")
        .bind(tenant)
        .bind(id);
        Ok(!self.write_and_notify(update).await?.is_empty())
    }

    /// Marks an execution as awaited by another process, so that its end is notified. True when it
    /// has not ended yet. A queued one is notified once more, as in `mark_watched`.
    pub async fn mark_awaited(&self, tenant: &TenantId, id: Uuid) -> Result<bool, StoreError> {
        let update = sql("UPDATE executions SET awaited = TRUE \
             WHERE tenant = $1 AND id = $2 AND status IN ('queued', 'running') \
             RETURNING CASE status WHEN 'queued' THEN 'queued' END AS notification")
        .bind(tenant)
        .bind(id);
        Ok(!self.write_and_notify(update).await?.is_empty())
    }

    /// Stores segments of a running execution's log and notifies its followers. The fencing token
    /// is part of the key: each attempt has its own log, so a worker that lost its lease cannot
    /// write into that of the next attempt.
    pub async fn append_log(
        &self,
        lease: &Lease,
        segments: &[LogSegment],
    ) -> Result<(), StoreError> {
        // Both databases limit the number of placeholders; 500 rows of six stay far below.
        for chunk in segments.chunks(500) {
            let rows = chunk.iter().map(|segment| {
                [
                    Arg::from(lease.execution_id),
                    Arg::from(lease.token),
                    Arg::from(segment.ends_at),
                    Arg::from(segment.stream),
                    Arg::from(segment.written_at),
                    Arg::from(&segment.text),
                ]
            });
            let insert = sql(
                "INSERT INTO log_segments (execution_id, attempt, ends_at, stream, written_at, text) VALUES ",
            )
            .push_rows(rows)
            // A retry after a lost answer may find segments that were committed.
            .push(" ON CONFLICT (execution_id, attempt, ends_at) DO NOTHING RETURNING 'logs:' || execution_id AS notification");
            self.write_and_notify(insert).await?;
        }
        Ok(())
    }

    /// The next segments of one attempt's log after the offset `after`, in order.
    pub async fn read_log(
        &self,
        tenant: &TenantId,
        id: Uuid,
        attempt: i32,
        after: i64,
        limit: i64,
    ) -> Result<Vec<LogSegment>, StoreError> {
        let select = sql("SELECT ends_at, stream, written_at, text FROM log_segments \
             WHERE execution_id = (SELECT id FROM executions WHERE tenant = $1 AND id = $2) \
             AND attempt = $3 AND ends_at > $4 ORDER BY ends_at LIMIT $5")
        .bind(tenant)
        .bind(id)
        .bind(i64::from(attempt))
        .bind(after)
        .bind(limit);
        let rows = self.db.read(select).await?;
        rows.iter().map(LogSegment::from_row).collect()
    }
}
