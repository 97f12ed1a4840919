//! The notifier of one process: the channel to its subscribers and, on Postgres, the task that
//! listens for the notifications of other processes.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use sqlx::Executor;
use sqlx::postgres::{PgConnectOptions, PgListener, PgPool, PgPoolOptions};
use tokio::sync::broadcast;
use tokio::task::AbortHandle;

use crate::Notification;

/// The Postgres channel; `pg_notify` in the SQL statements names it too.
const PG_CHANNEL: &str = "skillbox";

/// A subscriber with more unread notifications than this gets `Missed` instead of the oldest.
const CHANNEL_CAPACITY: usize = 1024;

/// The delay between attempts to reconnect to the database.
const RECONNECT_DELAY: Duration = Duration::from_millis(500);

/// A connection without a notification for this long is pinged.
const PING_INTERVAL: Duration = Duration::from_secs(15);

/// The timeout of one connection attempt and of one ping.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);

/// Clones share the channel and the listener.
#[derive(Clone, Debug)]
pub(crate) struct Notifier {
    sender: broadcast::Sender<Notification>,
    /// Set by the first subscriber: a process without subscribers needs no listening connection.
    listener: Arc<OnceLock<ListenerTask>>,
}

/// Aborts the task when the last handle on the store is dropped.
#[derive(Debug)]
struct ListenerTask(AbortHandle);

impl Drop for ListenerTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Notifier {
    pub(crate) fn new() -> Notifier {
        Notifier { sender: broadcast::Sender::new(CHANNEL_CAPACITY), listener: Arc::default() }
    }

    /// Delivers a notification to the subscribers in this process; without any it is dropped.
    pub(crate) fn notify_local(&self, notification: Notification) {
        let _ = self.sender.send(notification);
    }

    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Notification> {
        self.sender.subscribe()
    }

    /// Starts the listener, unless it runs already.
    pub(crate) fn listen_once(&self, options: PgConnectOptions) {
        self.listener.get_or_init(|| self.spawn_listener(options));
    }

    pub(crate) fn stop(&self) {
        if let Some(listener) = self.listener.get() {
            listener.0.abort();
        }
    }

    fn spawn_listener(&self, options: PgConnectOptions) -> ListenerTask {
        let sender = self.sender.clone();
        let task = tokio::spawn(async move {
            let pool = PgPoolOptions::new()
                .max_connections(1)
                .acquire_timeout(CONNECTION_TIMEOUT)
                .idle_timeout(None)
                .max_lifetime(None)
                // A name of its own, so that an operator can tell it from the other connections.
                .connect_lazy_with(options.application_name("skillbox-listener"));
            loop {
                // The error is ignored: whether the connection broke or could not be made, the
                // only remedy is to connect again. Until then subscribers rely on their ticks.
                let _ = forward_notifications(&pool, &sender).await;
                tokio::time::sleep(RECONNECT_DELAY).await;
            }
        });
        ListenerTask(task.abort_handle())
    }
}

/// Forwards notifications from Postgres to the subscribers until the connection breaks.
async fn forward_notifications(
    pool: &PgPool,
    sender: &broadcast::Sender<Notification>,
) -> Result<(), sqlx::Error> {
    let mut listener = PgListener::connect_with(pool).await?;
    // On a broken connection `try_recv` must return None instead of reconnecting silently:
    // subscribers must be notified that notifications may be lost.
    listener.eager_reconnect(false);
    listener.listen(PG_CHANNEL).await?;
    // Postgres does not store notifications, so those sent before LISTEN are lost. `Missed` comes
    // after LISTEN: sent earlier, a subscriber could check the database, and a change between its
    // check and LISTEN would go unnoticed.
    let _ = sender.send(Notification::Missed);
    loop {
        match tokio::time::timeout(PING_INTERVAL, listener.try_recv()).await {
            Ok(Ok(Some(message))) => {
                // In a rolling upgrade a newer server may send kinds that this one does not know.
                if let Ok(notification) = message.payload().parse() {
                    let _ = sender.send(notification);
                }
            }
            Ok(disconnected) => return disconnected.map(drop),
            Err(_) => ping(&mut listener).await?,
        }
    }
}

/// A network can drop a connection without a reset. Only a query without an answer reveals that.
async fn ping(listener: &mut PgListener) -> Result<(), sqlx::Error> {
    let answer = tokio::time::timeout(CONNECTION_TIMEOUT, listener.execute("SELECT 1")).await;
    answer.map_err(|_| sqlx::Error::PoolTimedOut)?.map(drop)
}
