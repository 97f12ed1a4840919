//! The client of one response: a client that goes away cancels the runs of its request.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http_body_util::combinators::{BoxBody, UnsyncBoxBody};
use http_body_util::{BodyExt, StreamBody};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::sessions::McpSession;

/// Held by the body of a response. When it is dropped before the body's end, the client has
/// disconnected.
pub(super) struct ResponseGuard {
    disconnected: CancellationToken,
    /// The session, with its reconnects since this request: a dead connection may be noticed long
    /// after the client has replaced it.
    session: Option<(Arc<McpSession>, watch::Receiver<u64>)>,
    reconnect_timeout: Duration,
    completed: bool,
    /// Delays the shutdown until the response is complete. Only requests that expect a result have
    /// one; a client that listens for notifications would delay the shutdown for nothing.
    _in_progress: Option<TaskTrackerToken>,
}

impl ResponseGuard {
    pub(super) fn new(
        disconnected: CancellationToken,
        session: Option<Arc<McpSession>>,
        reconnect_timeout: Duration,
        in_progress: Option<TaskTrackerToken>,
    ) -> ResponseGuard {
        let session = session.map(|session| {
            let reconnects = session.subscribe_to_reconnects();
            (session, reconnects)
        });
        ResponseGuard {
            disconnected,
            session,
            reconnect_timeout,
            completed: false,
            _in_progress: in_progress,
        }
    }

    /// The same body, which holds this guard until its end.
    pub(super) fn attach_to(
        self,
        body: BoxBody<Bytes, Infallible>,
    ) -> UnsyncBoxBody<Bytes, Infallible> {
        let frames = stream::unfold((body, self), |(mut body, mut guard)| async move {
            let frame = body.frame().await;
            guard.completed = frame.is_none();
            frame.map(|frame| (frame, (body, guard)))
        });
        StreamBody::new(frames).boxed_unsync()
    }
}

impl Drop for ResponseGuard {
    fn drop(&mut self) {
        if self.completed {
            return;
        }
        let (disconnected, timeout) = (self.disconnected.clone(), self.reconnect_timeout);
        let (Some((session, mut reconnects)), Ok(runtime)) =
            (self.session.take(), Handle::try_current())
        else {
            // Without a session the client cannot resume the response.
            disconnected.cancel();
            return;
        };
        drop(runtime.spawn(async move {
            // A session with a pending reconnect counts as used, so it is not evicted meanwhile.
            let _in_use = session;
            tokio::select! {
                // Biased, so that a client that has already reconnected always keeps its run.
                biased;
                Ok(()) = reconnects.changed() => {}
                () = tokio::time::sleep(timeout) => disconnected.cancel(),
            }
        }));
    }
}
