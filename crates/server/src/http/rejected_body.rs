//! Hearing a client out before it is refused.
//!
//! Most clients send their whole body before they read anything. If we answered a large upload with
//! 413 and closed the connection at once, they would see a broken pipe and never the reason.

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

/// Bodies larger than this are cut off: no refusal is worth that much traffic.
const MAX_DRAINED_BYTES: u64 = 256 << 20;
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Reads what a refused request still has to say, within bounds, and throws it away.
pub async fn drain_rejected_body(request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    // A client that asks before it sends is simply not told to go on.
    let polite = parts.headers.contains_key(header::EXPECT);
    if body.is_end_stream() || polite || body.size_hint().lower() > MAX_DRAINED_BYTES {
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

/// A body that outlives the handler which was given it.
#[derive(Clone)]
struct SharedBody(Arc<Mutex<Body>>);

impl SharedBody {
    fn with<T>(&self, use_body: impl FnOnce(&mut Body) -> T) -> T {
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
        self.with(|body| Pin::new(body).poll_frame(cx))
    }

    fn is_end_stream(&self) -> bool {
        self.with(|body| body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.with(|body| body.size_hint())
    }
}
