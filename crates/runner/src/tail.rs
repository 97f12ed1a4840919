//! The log of a run, written down while it grows, for readers in any process. Only while somebody
//! watches: a run that nobody follows costs nothing here.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sandbox::OutputStream;
use store::{Lease, LogSegment, Notification, Store};
use tokio_util::sync::CancellationToken;

use crate::logs::{FinishedLogs, Logs};

/// How long new text may wait to be written down together.
const PAUSE: Duration = Duration::from_millis(200);

/// A run's log, filled by the run and read by its tail.
#[derive(Clone)]
pub struct SharedLogs(Arc<Mutex<Logs>>);

impl SharedLogs {
    pub fn new(logs: Logs) -> SharedLogs {
        SharedLogs(Arc::new(Mutex::new(logs)))
    }

    pub fn push(&self, stream: OutputStream, bytes: &[u8]) {
        self.with(|logs| logs.push(stream, bytes));
    }

    pub fn finish(&self, truncated_by_guest: bool) -> FinishedLogs {
        self.with(|logs| std::mem::replace(logs, Logs::merged(0))).finish(truncated_by_guest)
    }

    fn with<T>(&self, act: impl FnOnce(&mut Logs) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Runs `running` to its end and, as soon as somebody watches, writes its log down beside it, to
/// its last byte.
pub async fn beside<T>(
    running: impl Future<Output = T>,
    store: &Store,
    lease: &Lease,
    logs: &SharedLogs,
    watched: CancellationToken,
) -> T {
    let ended = CancellationToken::new();
    let running = async {
        let ran = running.await;
        ended.cancel();
        ran
    };
    let follow = async {
        // Whoever watches at the very end finds the whole log in the record.
        if ended.run_until_cancelled(watched.cancelled()).await.is_some() {
            Tail { store, lease, logs, written: 0 }.follow(&ended).await;
        }
    };
    tokio::join!(running, follow).0
}

struct Tail<'a> {
    store: &'a Store,
    lease: &'a Lease,
    logs: &'a SharedLogs,
    /// Bytes of the log that are written down.
    written: usize,
}

impl Tail<'_> {
    async fn follow(mut self, ended: &CancellationToken) {
        // There may be nothing to read yet, but it runs: that is news to a reader who saw it
        // queued.
        if let Err(error) = self.store.notify(Notification::Logs(self.lease.execution_id)).await {
            tracing::warn!(%error, "announcing a log failed");
        }
        loop {
            let last = ended.is_cancelled();
            self.write().await;
            if last {
                return;
            }
            ended.run_until_cancelled(tokio::time::sleep(PAUSE)).await;
        }
    }

    /// What fails now is written with what comes next; at the very end the record has it.
    async fn write(&mut self) {
        let segments = self.logs.with(|logs| logs.since(self.written));
        let Some(LogSegment { ends_at, .. }) = segments.last() else { return };
        let ends_at = usize::try_from(*ends_at).unwrap_or(usize::MAX);
        match self.store.append_log(self.lease, &segments).await {
            Ok(()) => self.written = ends_at,
            Err(error) => {
                tracing::warn!(execution_id = %self.lease.execution_id, %error, "writing a followed log down failed");
            }
        }
    }
}
