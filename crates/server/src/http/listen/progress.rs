//! How far a response over HTTP/2 has got.
//!
//! hyper hands a response to the HTTP/2 layer, which keeps what the peer's flow control does not
//! let out yet, for as long as the peer likes. So the bytes themselves report when they leave, and
//! the stream is not let go before they have.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use bytes::{Buf, Bytes};
use hyper::body::{Frame, SizeHint};
use tokio::sync::Notify;
use tokio::time::Instant;

/// A response that ends in so few bytes ends with them. A larger one ends in an empty frame, when
/// its bytes are gone: what a peer can leave behind unread without a deadline is this much a
/// stream.
const MAX_UNTRACKED_END_BYTES: usize = 1024;

tokio::task_local! {
    /// The progress of the stream that the current task serves; none on HTTP/1.
    pub static STREAM: Arc<SendProgress>;
}

/// What one stream's response still has to send.
pub struct SendProgress {
    state: Mutex<ProgressState>,
    /// Wakes the deadline when there is something to send again.
    queued: Notify,
}

struct ProgressState {
    unsent: usize,
    /// When bytes were last queued on an idle stream, or left it.
    moved_at: Instant,
    /// The whole response was handed over.
    complete: bool,
    /// Waits until everything is sent.
    drained: Option<Waker>,
}

impl SendProgress {
    pub fn new() -> Arc<SendProgress> {
        let state =
            ProgressState { unsent: 0, moved_at: Instant::now(), complete: false, drained: None };
        Arc::new(SendProgress { state: Mutex::new(state), queued: Notify::new() })
    }

    /// Returns when bytes wait to be sent and none has left for `limit`.
    pub async fn stalled(&self, limit: Duration) {
        loop {
            let deadline = {
                let state = self.state();
                (state.unsent > 0).then(|| state.moved_at + limit)
            };
            match deadline {
                None => self.queued.notified().await,
                Some(at) if at <= Instant::now() => return,
                Some(at) => tokio::time::sleep_until(at).await,
            }
        }
    }

    /// Whether the response was handed over to its end, so that its client did not give up on it.
    pub fn is_complete(&self) -> bool {
        self.state().complete
    }

    fn queue(&self, bytes: usize) {
        let mut state = self.state();
        if state.unsent == 0 && bytes > 0 {
            state.moved_at = Instant::now();
            self.queued.notify_one();
        }
        state.unsent += bytes;
    }

    fn sent(&self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let waker = {
            let mut state = self.state();
            state.unsent = state.unsent.saturating_sub(bytes);
            state.moved_at = Instant::now();
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

    /// Notes the end of a response of which little enough is left to send.
    fn ends_small(&self) -> bool {
        let mut state = self.state();
        state.complete |= state.unsent <= MAX_UNTRACKED_END_BYTES;
        state.complete
    }

    fn state(&self) -> MutexGuard<'_, ProgressState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A response's body, whose bytes are followed until they leave. On HTTP/1 nothing is followed: the
/// socket's own deadline is enough where a connection has one response at a time.
pub struct TrackedBody {
    body: Body,
    progress: Option<Arc<SendProgress>>,
    ended: bool,
}

impl TrackedBody {
    /// For the stream that the current task serves, if it serves one.
    pub fn new(body: Body) -> TrackedBody {
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
            && self.progress.as_ref().is_none_or(|progress| progress.ends_small())
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Bytes on their way out. Dropped unsent they are gone, too.
pub struct TrackedBytes {
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

    fn sent(&self, count: usize) {
        if let Some(progress) = &self.progress {
            progress.sent(count);
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
        self.sent(count);
    }

    fn copy_to_bytes(&mut self, count: usize) -> Bytes {
        let bytes = self.bytes.copy_to_bytes(count);
        self.sent(count);
        bytes
    }
}

impl Drop for TrackedBytes {
    fn drop(&mut self) {
        self.sent(self.bytes.len());
    }
}
