//! Reads the rest of a request body after a rejection.
//!
//! Most clients send their whole body before they read the response. If a large upload got a 413 and
//! the connection was closed at once, they would see a broken pipe and never the reason.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use bytes::Bytes;
use http::{StatusCode, header};
use http_body_util::BodyExt;
use hyper::body::{Frame, SizeHint};

/// Larger bodies are cut off: the error message is not worth that much traffic.
const MAX_DRAINED_BYTES: u64 = 256 << 20;
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Reads and discards the rest of the body of a rejected request, within limits.
pub(crate) async fn drain_rejected_body(request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    // A client with `Expect: 100-continue` has not sent its body: without a 100 it never does.
    let expects_continue = parts.headers.contains_key(header::EXPECT);
    if body.is_end_stream() || expects_continue || body.size_hint().lower() > MAX_DRAINED_BYTES {
        return next.run(Request::from_parts(parts, body)).await;
    }
    let body = SharedBody(Arc::new(Mutex::new(body)));
    let response = next.run(Request::from_parts(parts, Body::new(body.clone()))).await;
    let status = response.status();
    if !status.is_success() && status != StatusCode::REQUEST_TIMEOUT {
        let _ = tokio::time::timeout(DRAIN_TIMEOUT, discard(body)).await;
    }
    response
}

async fn discard(mut body: SharedBody) {
    let mut left = MAX_DRAINED_BYTES;
    while let Some(Ok(frame)) = body.frame().await {
        let bytes = frame.data_ref().map_or(0, |data| data.len() as u64);
        let Some(rest) = left.checked_sub(bytes) else { return };
        left = rest;
    }
}

/// A body that is still readable after the handler dropped it.
#[derive(Clone)]
struct SharedBody(Arc<Mutex<Body>>);

impl SharedBody {
    fn lock_body<T>(&self, use_body: impl FnOnce(&mut Body) -> T) -> T {
        use_body(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl HttpBody for SharedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.lock_body(|body| Pin::new(body).poll_frame(cx))
    }

    fn is_end_stream(&self) -> bool {
        self.lock_body(|body| body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.lock_body(|body| body.size_hint())
    }
}
