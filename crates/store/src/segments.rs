//! The log of a running execution that somebody follows, written down piece by piece. A piece is
//! named by where it ends in the whole text, so a reader can go on anywhere, and go on in the
//! finished log when the pieces are gone.

use uuid::Uuid;

use crate::row::Row;
use crate::sql::{Arg, sql};
use crate::string_enum::string_enum;
use crate::{Lease, Micros, Store, StoreError, TenantId};

string_enum! {
    /// Which of a script's streams a piece of its log came from.
    LogStream, "log stream" {
        Stdout = "stdout",
        Stderr = "stderr",
        /// Both in one, or not known any more.
        Merged = "merged",
    }
}

/// A piece of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSegment {
    /// Bytes of the log up to and with this piece.
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
    /// Notes that somebody follows this execution and, while it runs, tells whoever runs it. True
    /// when it has not ended yet. One that waits is announced once more: a claim at this very
    /// moment passed the locked row over.
    pub async fn mark_watched(&self, tenant: &TenantId, id: Uuid) -> Result<bool, StoreError> {
        let update = sql("UPDATE executions SET watched = TRUE \
             WHERE tenant = $1 AND id = $2 AND status IN ('queued', 'running') \
             RETURNING CASE status WHEN 'running' THEN 'watch:' || id ELSE 'queued' END AS notification")
        .bind(tenant)
        .bind(id);
        Ok(!self.write_and_notify(update).await?.is_empty())
    }

    /// Notes that somebody in another process may wait for the end, so that it is announced. True
    /// when it has not ended yet. One that waits is announced once more, as by `watch`.
    pub async fn mark_awaited(&self, tenant: &TenantId, id: Uuid) -> Result<bool, StoreError> {
        let update = sql("UPDATE executions SET awaited = TRUE \
             WHERE tenant = $1 AND id = $2 AND status IN ('queued', 'running') \
             RETURNING CASE status WHEN 'queued' THEN 'queued' END AS notification")
        .bind(tenant)
        .bind(id);
        Ok(!self.write_and_notify(update).await?.is_empty())
    }

    /// Writes pieces of a running execution's log down and announces them. Each attempt has its own
    /// log, so a worker that lost its lease disturbs nobody.
    pub async fn append_log(
        &self,
        lease: &Lease,
        segments: &[LogSegment],
    ) -> Result<(), StoreError> {
        // Both databases bound the number of placeholders; this stays far below either.
        for some in segments.chunks(500) {
            let rows = some.iter().map(|segment| {
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
            // A try whose answer was lost may have come through.
            .push(" ON CONFLICT (execution_id, attempt, ends_at) DO NOTHING RETURNING 'logs:' || execution_id AS notification");
            self.write_and_notify(insert).await?;
        }
        Ok(())
    }

    /// The next pieces of one attempt's log behind `after` bytes, in order.
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
