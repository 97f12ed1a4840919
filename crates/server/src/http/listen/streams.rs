//! The streams of one HTTP/2 connection: how many are served, and which are given up.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hyper::rt::Executor;
use tokio::sync::{Notify, watch};

use super::progress::{STREAM, SendProgress};
use crate::auth::token_bucket::{Rate, TokenBucket};

/// What goes on in a connection.
pub struct ConnectionActivity {
    /// Requests in flight. A connection of HTTP/1 counts as one for ever after its first: hyper
    /// itself closes it when idle.
    active: watch::Sender<usize>,
    /// Requests that the client may still take back.
    resets: Mutex<TokenBucket>,
    reset_rate: Rate,
    flooded: Notify,
}

impl ConnectionActivity {
    pub fn new(reset_rate: Rate) -> Arc<ConnectionActivity> {
        let resets = Mutex::new(TokenBucket::full(reset_rate, Instant::now()));
        Arc::new(ConnectionActivity {
            active: watch::Sender::new(0),
            resets,
            reset_rate,
            flooded: Notify::new(),
        })
    }

    /// Leaves the idle time to hyper, which knows when a connection of HTTP/1 waits for a request.
    pub fn leave_to_hyper(&self) {
        self.active.send_if_modified(|active| {
            let first = *active == 0;
            *active = 1;
            first
        });
    }

    /// Returns when no request was in flight for `limit`.
    pub async fn idle(&self, limit: Duration) {
        let mut active = self.active.subscribe();
        loop {
            // The sender is ours, so neither wait can fail.
            let _ = active.wait_for(|active| *active == 0).await;
            if tokio::time::timeout(limit, active.wait_for(|active| *active > 0)).await.is_err() {
                return;
            }
        }
    }

    /// Returns when the client took back more requests than it may.
    pub async fn flooded(&self) {
        self.flooded.notified().await;
    }

    fn abandoned(&self) {
        let mut resets = self.resets.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        resets.take(self.reset_rate, now);
        if resets.time_to_token(self.reset_rate, now).is_some() {
            self.flooded.notify_one();
        }
    }
}

/// Runs the streams of a connection, each with a deadline for its response to move.
#[derive(Clone)]
pub struct StreamExecutor {
    pub activity: Arc<ConnectionActivity>,
    pub write_timeout: Duration,
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for StreamExecutor {
    fn execute(&self, stream: F) {
        let in_flight = InFlight::new(&self.activity);
        let (progress, write_timeout) = (SendProgress::new(), self.write_timeout);
        let served = STREAM.scope(Arc::clone(&progress), async move {
            tokio::select! {
                () = stream => in_flight.ended(progress.is_complete()),
                // Dropped, the stream is reset, and with it goes its response.
                () = progress.stalled(write_timeout) => tracing::debug!("a response was not read in time; its stream is reset"),
            }
        });
        tokio::spawn(served);
    }
}

/// A request being served; counted until it is dropped.
struct InFlight(Arc<ConnectionActivity>);

impl InFlight {
    fn new(activity: &Arc<ConnectionActivity>) -> InFlight {
        activity.active.send_modify(|active| *active += 1);
        InFlight(Arc::clone(activity))
    }

    fn ended(&self, complete: bool) {
        if !complete {
            self.0.abandoned();
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.active.send_modify(|active| *active = active.saturating_sub(1));
    }
}
