//! Responses that keep their memory permit until they are sent.

use std::pin::Pin;
use std::task::{Context, Poll};

use admission::Permit;
use axum::body::{Body, HttpBody};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http_body::{Frame, SizeHint};

/// A response whose body owns the permit. The permit is returned when the last byte was sent, or the
/// connection is closed.
pub(crate) fn with_permit(
    response: impl IntoResponse,
    permit: impl Into<Option<Permit>>,
) -> Response {
    match permit.into() {
        Some(permit) => {
            response.into_response().map(|body| Body::new(BodyWithPermit { body, permit }))
        }
        None => response.into_response(),
    }
}

struct BodyWithPermit {
    body: Body,
    #[expect(dead_code, reason = "held for as long as the body is")]
    permit: Permit,
}

impl HttpBody for BodyWithPermit {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
