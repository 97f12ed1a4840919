//! Notifications of changes to executions, delivered to every process on this database.
//!
//! On Postgres they are sent with `NOTIFY` by the transaction that makes the change, so a change
//! that is rolled back sends nothing. SQLite serves one process, and a channel in it. A
//! notification only says which row to read again. Delivery is not guaranteed: subscribers also
//! poll at intervals, and after a gap each gets `Missed` and reads everything it waits for once.

use std::fmt;
use std::str::FromStr;

use sqlx::postgres::PgConnectOptions;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use uuid::Uuid;

use crate::db::Database;
use crate::row::Row;
use crate::sql::{Sql, sql};
use crate::{Store, StoreError, UnknownVariant};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notification {
    /// An execution was queued; a worker can claim it.
    Queued,
    /// The cancellation of this running execution was requested.
    Cancel(Uuid),
    /// This execution has ended.
    Ended(Uuid),
    /// A client follows the log of this execution.
    Watch(Uuid),
    /// More of the log of this execution was stored.
    Logs(Uuid),
    /// Notifications may have been lost: read everything that is waited for.
    Missed,
}

impl fmt::Display for Notification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notification::Queued => f.write_str("queued"),
            Notification::Cancel(id) => write!(f, "cancel:{id}"),
            Notification::Ended(id) => write!(f, "ended:{id}"),
            Notification::Watch(id) => write!(f, "watch:{id}"),
            Notification::Logs(id) => write!(f, "logs:{id}"),
            Notification::Missed => f.write_str("missed"),
        }
    }
}

impl FromStr for Notification {
    type Err = UnknownVariant;

    fn from_str(text: &str) -> Result<Notification, UnknownVariant> {
        let known = match text.split_once(':') {
            None if text == "queued" => Some(Notification::Queued),
            None if text == "missed" => Some(Notification::Missed),
            None => None,
            Some((kind, id)) => id.parse().ok().and_then(|id| match kind {
                "cancel" => Some(Notification::Cancel(id)),
                "ended" => Some(Notification::Ended(id)),
                "watch" => Some(Notification::Watch(id)),
                "logs" => Some(Notification::Logs(id)),
                _ => None,
            }),
        };
        known.ok_or_else(|| UnknownVariant { expected: "notification", value: text.to_owned() })
    }
}

/// One subscription.
pub struct Notifications(broadcast::Receiver<Notification>);

impl Notifications {
    /// The next notification; `None` when the store is closed.
    pub async fn next(&mut self) -> Option<Notification> {
        match self.0.recv().await {
            Ok(notification) => Some(notification),
            // The channel dropped the oldest ones; which is unknown.
            Err(RecvError::Lagged(_)) => Some(Notification::Missed),
            Err(RecvError::Closed) => None,
        }
    }
}

impl Store {
    /// Subscribes to the notifications of this and all other processes. Needs a tokio runtime.
    pub fn notifications(&self) -> Notifications {
        // Subscribed before the listener starts, or its first `Missed` could be lost.
        let receiver = self.notifier.subscribe();
        if let Database::Postgres(pool) = &self.db {
            self.notifier.listen_once(PgConnectOptions::clone(&pool.connect_options()));
        }
        Notifications(receiver)
    }

    /// Sends a notification that does not belong to a change of a row.
    pub async fn notify(&self, notification: Notification) -> Result<(), StoreError> {
        match &self.db {
            Database::Sqlite { .. } => self.notifier.notify_local(notification),
            Database::Postgres(_) => {
                let notify =
                    sql("SELECT pg_notify('skillbox', $1)::text").bind(notification.to_string());
                self.db.read(notify).await?;
            }
        }
        Ok(())
    }

    /// Runs one statement as its own transaction. Its RETURNING clause has a column `notification`,
    /// a notification or NULL for each changed row; they are sent with the commit.
    pub(crate) async fn write_and_notify(&self, sql: Sql<'_>) -> Result<Vec<Row>, StoreError> {
        let rows = self.db.write_returning(self.with_notification(sql)).await?;
        self.notify_local(&rows)?;
        Ok(rows)
    }

    /// The same statement for use in a longer transaction. On Postgres it sends the notifications
    /// itself, and the server delivers them on commit. On SQLite the caller passes the rows to
    /// `notify_local` after the commit: a subscriber that is notified earlier would read the old
    /// row and wait for a notification that does not come again.
    pub(crate) fn with_notification<'a>(&self, sql: Sql<'a>) -> Sql<'a> {
        match &self.db {
            Database::Sqlite { .. } => sql,
            Database::Postgres(_) => sql.wrap(
                "WITH changed AS (",
                ") SELECT changed.*, CASE WHEN notification IS NOT NULL \
                 THEN pg_notify('skillbox', notification)::text END AS notified FROM changed",
            ),
        }
    }

    /// On SQLite, sends the notifications of committed rows. Does nothing on Postgres.
    pub(crate) fn notify_local(&self, rows: &[Row]) -> Result<(), StoreError> {
        if let Database::Sqlite { .. } = &self.db {
            for row in rows {
                if let Some(notification) = row.parse_opt("notification")? {
                    self.notifier.notify_local(notification);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notifications_survive_a_round_trip_as_text() {
        let id = Uuid::now_v7();
        for notification in [
            Notification::Queued,
            Notification::Cancel(id),
            Notification::Ended(id),
            Notification::Watch(id),
            Notification::Logs(id),
            Notification::Missed,
        ] {
            assert_eq!(notification.to_string().parse(), Ok(notification));
        }
        for other in
            ["", "queued:", "cancel", "cancel:x", "shouted:0198c0de-0000-7000-8000-000000000000"]
        {
            assert!(other.parse::<Notification>().is_err(), "{other}");
        }
    }
}
