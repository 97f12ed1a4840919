//! The streams of one HTTP/2 connection: how many are in flight, and which are reset.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hyper::rt::Executor;
use tokio::sync::{Notify, watch};

use super::progress::{STREAM, SendProgress};
use crate::auth::token_bucket::{Rate, TokenBucket};

/// The requests in flight and the resets of a connection.
pub(super) struct ConnectionActivity {
    /// Requests in flight. An HTTP/1 connection counts as one from its first request to its end:
    /// hyper itself closes it when idle.
    active: watch::Sender<usize>,
    /// Requests that the client may still reset.
    resets: Mutex<TokenBucket>,
    reset_rate: Rate,
    flooded: Notify,
}

impl ConnectionActivity {
    pub(super) fn new(reset_rate: Rate) -> Arc<ConnectionActivity> {
        let resets = Mutex::new(TokenBucket::full(reset_rate, Instant::now()));
        Arc::new(ConnectionActivity {
            active: watch::Sender::new(0),
            resets,
            reset_rate,
            flooded: Notify::new(),
        })
    }

    /// Leaves the idle timeout to hyper, which knows when an HTTP/1 connection waits for a request.
    pub(super) fn use_hyper_idle_timeout(&self) {
        self.active.send_if_modified(|active| {
            let first = *active == 0;
            *active = 1;
            first
        });
    }

    /// Returns when no request was in flight for `limit`.
    pub(super) async fn wait_for_idle(&self, limit: Duration) {
        let mut active = self.active.subscribe();
        loop {
            // The sender is ours, so neither wait can fail.
            let _ = active.wait_for(|active| *active == 0).await;
            if tokio::time::timeout(limit, active.wait_for(|active| *active > 0)).await.is_err() {
                return;
            }
        }
    }

    /// Returns when the client has reset more requests than it may (the "rapid reset" attack).
    pub(super) async fn wait_for_reset_flood(&self) {
        self.flooded.notified().await;
    }

    fn count_reset(&self) {
        let mut resets = self.resets.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        resets.take(self.reset_rate, now);
        if resets.time_to_token(self.reset_rate, now).is_some() {
            self.flooded.notify_one();
        }
    }
}

/// Runs the streams of a connection, each with a timeout for the progress of its response.
#[derive(Clone)]
pub(super) struct StreamExecutor {
    pub activity: Arc<ConnectionActivity>,
    pub write_timeout: Duration,
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for StreamExecutor {
    fn execute(&self, stream: F) {
        let in_flight = InFlight::new(&self.activity);
        let (progress, write_timeout) = (SendProgress::new(), self.write_timeout);
        let served = STREAM.scope(Arc::clone(&progress), async move {
            tokio::select! {
                () = stream => in_flight.finish(progress.is_complete()),
                // Dropping the stream resets it and frees the buffers of its response.
                () = progress.wait_for_stall(write_timeout) => tracing::debug!("a response was not read in time; its stream is reset"),
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

    fn finish(&self, complete: bool) {
        if !complete {
            self.0.count_reset();
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.active.send_modify(|active| *active = active.saturating_sub(1));
    }
}
