//! Announcements: what happened to executions, told at once to every process on this database.
//!
//! On Postgres they are notifications, sent by the transaction that makes the change, so nobody
//! hears of what was undone. SQLite has one process, and a channel in it. They only say where to
//! look; who missed one looks anyway from time to time, and after a gap everybody is told to look
//! once.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use sqlx::Executor;
use sqlx::postgres::{PgConnectOptions, PgListener, PgPool, PgPoolOptions};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::AbortHandle;
use uuid::Uuid;

use crate::db::Database;
use crate::row::Row;
use crate::sql::{Sql, sql};
use crate::{Store, StoreError, UnknownVariant};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notification {
    /// Something waits for a worker.
    Queued,
    /// Somebody wants this running execution stopped.
    Cancel(Uuid),
    /// It has ended.
    Ended(Uuid),
    /// Somebody follows its log.
    Watch(Uuid),
    /// More of its log was written down.
    Logs(Uuid),
    /// There may have been others: whoever waits for something looks once.
    Missed,
}

/// More than this unread, and the reader is told that it missed some.
const BACKLOG: usize = 1024;

/// Between tries to reach a database that is gone.
const RECONNECT: Duration = Duration::from_millis(500);

/// After so long without a word the connection is asked for a sign of life.
const QUIET: Duration = Duration::from_secs(15);

/// How long one such try, or the answer to such a question, may take.
const PATIENCE: Duration = Duration::from_secs(10);

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
            Some((word, id)) => id.parse().ok().and_then(|id| match word {
                "cancel" => Some(Notification::Cancel(id)),
                "ended" => Some(Notification::Ended(id)),
                "watch" => Some(Notification::Watch(id)),
                "logs" => Some(Notification::Logs(id)),
                _ => None,
            }),
        };
        known.ok_or_else(|| UnknownVariant { kind: "announcement", word: text.to_owned() })
    }
}

/// What one reader has not read yet.
pub struct Notifications(broadcast::Receiver<Notification>);

impl Notifications {
    /// The next announcement; `None` when the store is closed.
    pub async fn next(&mut self) -> Option<Notification> {
        match self.0.recv().await {
            Ok(announcement) => Some(announcement),
            Err(RecvError::Lagged(_)) => Some(Notification::Missed),
            Err(RecvError::Closed) => None,
        }
    }
}

/// Where announcements of this process come together.
#[derive(Clone, Debug)]
pub(crate) struct Notifier {
    said: broadcast::Sender<Notification>,
    /// The task with the listening connection, once somebody listens.
    listening: Arc<OnceLock<ListenerTask>>,
}

/// Ends the task with the last handle on the store.
#[derive(Debug)]
struct ListenerTask(AbortHandle);

impl Drop for ListenerTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Notifier {
    pub fn new() -> Notifier {
        Notifier { said: broadcast::Sender::new(BACKLOG), listening: Arc::default() }
    }

    pub fn stop(&self) {
        if let Some(listening) = self.listening.get() {
            listening.0.abort();
        }
    }

    fn listen(&self, options: PgConnectOptions) -> ListenerTask {
        let said = self.said.clone();
        let task = tokio::spawn(async move {
            let pool = PgPoolOptions::new()
                .max_connections(1)
                .acquire_timeout(PATIENCE)
                .idle_timeout(None)
                .max_lifetime(None)
                // So that an operator can tell it from the others.
                .connect_lazy_with(options.application_name("skillbox-listener"));
            loop {
                // Either the connection was cut or there is none to be had; both pass, and the
                // ticks of whoever waits stand in until then.
                let _ = hear(&pool, &said).await;
                tokio::time::sleep(RECONNECT).await;
            }
        });
        ListenerTask(task.abort_handle())
    }
}

/// Passes notifications on until the connection is cut.
async fn hear(pool: &PgPool, said: &broadcast::Sender<Notification>) -> Result<(), sqlx::Error> {
    let mut listener = PgListener::connect_with(pool).await?;
    listener.eager_reconnect(false);
    listener.listen(CHANNEL).await?;
    // Only now, because from here on nothing is missed.
    let _ = said.send(Notification::Missed);
    loop {
        match tokio::time::timeout(QUIET, listener.try_recv()).await {
            Ok(Ok(Some(notification))) => {
                // A word that a newer server says means nothing to this one.
                if let Ok(announcement) = notification.payload().parse() {
                    let _ = said.send(announcement);
                }
            }
            Ok(cut) => return cut.map(drop),
            Err(_) => ping(&mut listener).await?,
        }
    }
}

/// A network can take a connection away without a word; a question that stays unanswered brings it
/// out.
async fn ping(listener: &mut PgListener) -> Result<(), sqlx::Error> {
    let answer = tokio::time::timeout(PATIENCE, listener.execute("SELECT 1")).await;
    answer.map_err(|_| sqlx::Error::PoolTimedOut)?.map(drop)
}

const CHANNEL: &str = "skillbox";

impl Store {
    /// Everything announced from now on, by this process and by all others. Needs a tokio runtime.
    pub fn notifications(&self) -> Notifications {
        let receiver = self.notifier.said.subscribe();
        if let Database::Postgres(pool) = &self.db {
            let options = PgConnectOptions::clone(&pool.connect_options());
            self.notifier.listening.get_or_init(|| self.notifier.listen(options));
        }
        Notifications(receiver)
    }

    /// Says something that no change of a row says.
    pub async fn notify(&self, announcement: Notification) -> Result<(), StoreError> {
        match &self.db {
            Database::Sqlite { .. } => drop(self.notifier.said.send(announcement)),
            Database::Postgres(_) => {
                let notify =
                    sql("SELECT pg_notify('skillbox', $1)::text").bind(announcement.to_string());
                self.db.read(notify).await?;
            }
        }
        Ok(())
    }

    /// Runs one statement as its own transaction. Its RETURNING has a column `notification`, an
    /// announcement or NULL, and what the changed rows say is announced with the commit.
    pub(crate) async fn write_and_notify(&self, sql: Sql<'_>) -> Result<Vec<Row>, StoreError> {
        let rows = self.db.write_returning(self.with_notification(sql)).await?;
        self.notify_local(&rows)?;
        Ok(rows)
    }

    /// The same statement for a transaction; `said` makes it heard after the commit where the
    /// database does not.
    pub(crate) fn with_notification<'a>(&self, sql: Sql<'a>) -> Sql<'a> {
        match &self.db {
            Database::Sqlite { .. } => sql,
            Database::Postgres(_) => sql.within(
                "WITH changed AS (",
                ") SELECT changed.*, CASE WHEN notification IS NOT NULL \
                 THEN pg_notify('skillbox', notification)::text END AS notified FROM changed",
            ),
        }
    }

    pub(crate) fn notify_local(&self, rows: &[Row]) -> Result<(), StoreError> {
        if let Database::Sqlite { .. } = &self.db {
            for row in rows {
                if let Some(announcement) = row.parse_opt("notification")? {
                    let _ = self.notifier.said.send(announcement);
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
    fn every_announcement_reads_back() {
        let id = Uuid::now_v7();
        for announcement in [
            Notification::Queued,
            Notification::Cancel(id),
            Notification::Ended(id),
            Notification::Watch(id),
            Notification::Logs(id),
            Notification::Missed,
        ] {
            assert_eq!(announcement.to_string().parse(), Ok(announcement));
        }
        for other in
            ["", "queued:", "cancel", "cancel:x", "shouted:0198c0de-0000-7000-8000-000000000000"]
        {
            assert!(other.parse::<Notification>().is_err(), "{other}");
        }
    }
}
