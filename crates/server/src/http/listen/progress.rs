//! The progress of a response over HTTP/2.
//!
//! hyper passes a response to the HTTP/2 layer, which buffers what the peer's flow control does not
//! allow to be sent yet, without a time limit. So the bytes themselves report when they are sent, and
//! the stream stays open, and under a deadline, until all of them are.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use bytes::{Buf, Bytes};
use hyper::body::{Frame, SizeHint};
use tokio::sync::Notify;
use tokio::time::Instant;

/// A response with at most this many unsent bytes at its end is not tracked to its end: its last
/// frame ends the stream. A larger one ends with an empty frame after its bytes were sent. So a peer
/// can leave at most this much unread per stream without a deadline.
const MAX_UNTRACKED_END_BYTES: usize = 1024;

tokio::task_local! {
    /// The progress of the stream that the current task serves; none on HTTP/1.
    pub static STREAM: Arc<SendProgress>;
}

/// What the response of one stream still has to send.
pub(super) struct SendProgress {
    state: Mutex<ProgressState>,
    /// Restarts the deadline when there is something to send again.
    queued: Notify,
}

struct ProgressState {
    unsent: usize,
    /// When bytes were last queued on an idle stream, or sent.
    progressed_at: Instant,
    /// The HTTP/2 layer has got the whole response.
    complete: bool,
    /// The task that waits until everything is sent.
    drained: Option<Waker>,
}

impl SendProgress {
    pub(super) fn new() -> Arc<SendProgress> {
        let state = ProgressState {
            unsent: 0,
            progressed_at: Instant::now(),
            complete: false,
            drained: None,
        };
        Arc::new(SendProgress { state: Mutex::new(state), queued: Notify::new() })
    }

    /// Returns when bytes wait to be sent and none was sent for `limit`.
    pub(super) async fn wait_for_stall(&self, limit: Duration) {
        loop {
            let deadline = {
                let state = self.state();
                (state.unsent > 0).then(|| state.progressed_at + limit)
            };
            match deadline {
                None => self.queued.notified().await,
                Some(at) if at <= Instant::now() => return,
                Some(at) => tokio::time::sleep_until(at).await,
            }
        }
    }

    /// Whether the HTTP/2 layer got the whole response, so that the client has not reset the stream.
    pub(super) fn is_complete(&self) -> bool {
        self.state().complete
    }

    fn queue(&self, bytes: usize) {
        let mut state = self.state();
        if state.unsent == 0 && bytes > 0 {
            state.progressed_at = Instant::now();
            self.queued.notify_one();
        }
        state.unsent += bytes;
    }

    fn record_sent(&self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let waker = {
            let mut state = self.state();
            state.unsent = state.unsent.saturating_sub(bytes);
            state.progressed_at = Instant::now();
            if state.unsent == 0 { state.drained.take() } else { None }
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn poll_drained(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.state();
        if state.unsent > 0 {
            state.drained = Some(cx.waker().clone());
            return Poll::Pending;
        }
        state.complete = true;
        Poll::Ready(())
    }

    /// Marks the response as complete when little enough is left to send.
    fn complete_if_small(&self) -> bool {
        let mut state = self.state();
        state.complete |= state.unsent <= MAX_UNTRACKED_END_BYTES;
        state.complete
    }

    fn state(&self) -> MutexGuard<'_, ProgressState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A response body whose bytes are tracked until they are sent. On HTTP/1 nothing is tracked: there a
/// connection has one response at a time, so the write timeout of the socket is enough.
pub(super) struct TrackedBody {
    body: Body,
    progress: Option<Arc<SendProgress>>,
    ended: bool,
}

impl TrackedBody {
    /// For the stream that the current task serves, if it serves one.
    pub(super) fn new(body: Body) -> TrackedBody {
        TrackedBody { body, progress: STREAM.try_with(Arc::clone).ok(), ended: false }
    }
}

impl HttpBody for TrackedBody {
    type Data = TrackedBytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<TrackedBytes>, axum::Error>>> {
        if !self.ended {
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    let progress = self.progress.clone();
                    // Nothing follows trailers.
                    if let Some(progress) = progress.as_ref().filter(|_| frame.is_trailers()) {
                        progress.state().complete = true;
                    }
                    return Poll::Ready(Some(Ok(
                        frame.map_data(|bytes| TrackedBytes::new(bytes, progress))
                    )));
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => self.ended = true,
            }
        }
        if let Some(progress) = &self.progress {
            ready!(progress.poll_drained(cx));
        }
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
            && self.progress.as_ref().is_none_or(|progress| progress.complete_if_small())
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Bytes to be sent. Dropping them counts as sending them: the stream was reset.
pub(super) struct TrackedBytes {
    bytes: Bytes,
    progress: Option<Arc<SendProgress>>,
}

impl TrackedBytes {
    fn new(bytes: Bytes, progress: Option<Arc<SendProgress>>) -> TrackedBytes {
        if let Some(progress) = &progress {
            progress.queue(bytes.len());
        }
        TrackedBytes { bytes, progress }
    }

    fn record_sent(&self, count: usize) {
        if let Some(progress) = &self.progress {
            progress.record_sent(count);
        }
    }
}

impl Buf for TrackedBytes {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        self.record_sent(count);
    }

    fn copy_to_bytes(&mut self, count: usize) -> Bytes {
        let bytes = self.bytes.copy_to_bytes(count);
        self.record_sent(count);
        bytes
    }
}

impl Drop for TrackedBytes {
    fn drop(&mut self) {
        self.record_sent(self.bytes.len());
    }
}
