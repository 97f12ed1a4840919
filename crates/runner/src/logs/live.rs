//! Writes the log of a run to the store while it grows, for subscribers in any process. Only if
//! there is a subscriber: other runs pay nothing for this.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sandbox::OutputStream;
use store::{Lease, LogSegment, Notification, Store};
use tokio_util::sync::CancellationToken;

use crate::logs::buffer::{FinishedLogs, LogBuffer};

/// How often new text is written.
const WRITE_INTERVAL: Duration = Duration::from_millis(200);

/// A run's log, filled by the run and read by the writer below.
#[derive(Clone)]
pub(crate) struct SharedLogs(Arc<Mutex<LogBuffer>>);

impl SharedLogs {
    pub(crate) fn new(logs: LogBuffer) -> SharedLogs {
        SharedLogs(Arc::new(Mutex::new(logs)))
    }

    pub(crate) fn push(&self, stream: OutputStream, bytes: &[u8]) {
        self.with_buffer(|logs| logs.push(stream, bytes));
    }

    pub(crate) fn finish(&self, truncated_by_guest: bool) -> FinishedLogs {
        self.with_buffer(|logs| std::mem::replace(logs, LogBuffer::merged(0)))
            .finish(truncated_by_guest)
    }

    fn with_buffer<T>(&self, act: impl FnOnce(&mut LogBuffer) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Polls `running` to its end and, as soon as the execution is watched, writes its log to the store
/// meanwhile, to the last byte.
pub(crate) async fn publish_while<T>(
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
        // A subscriber that comes after the end finds the whole log in the record.
        if ended.run_until_cancelled(watched.cancelled()).await.is_some() {
            LiveLogWriter { store, lease, logs, written_bytes: 0 }.run(&ended).await;
        }
    };
    tokio::join!(running, follow).0
}

struct LiveLogWriter<'a> {
    store: &'a Store,
    lease: &'a Lease,
    logs: &'a SharedLogs,
    /// Bytes of the log that are in the store.
    written_bytes: usize,
}

impl LiveLogWriter<'_> {
    async fn run(mut self, ended: &CancellationToken) {
        // There may be no text yet, but the execution runs now: subscribers that saw it queued need
        // to be notified.
        if let Err(error) = self.store.notify(Notification::Logs(self.lease.execution_id)).await {
            tracing::warn!(%error, "notifying about a log failed");
        }
        loop {
            let last = ended.is_cancelled();
            self.write().await;
            if last {
                return;
            }
            ended.run_until_cancelled(tokio::time::sleep(WRITE_INTERVAL)).await;
        }
    }

    /// Text whose write fails is written together with the next; after the end the record has it.
    async fn write(&mut self) {
        let segments = self.logs.with_buffer(|logs| logs.since(self.written_bytes));
        let Some(LogSegment { ends_at, .. }) = segments.last() else { return };
        let ends_at = usize::try_from(*ends_at).unwrap_or(usize::MAX);
        match self.store.append_log(self.lease, &segments).await {
            Ok(()) => self.written_bytes = ends_at,
            Err(error) => {
                tracing::warn!(execution_id = %self.lease.execution_id, %error, "writing a watched log failed");
            }
        }
    }
}
