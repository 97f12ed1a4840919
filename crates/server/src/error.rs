//! API errors: the type that every handler returns, and its JSON body.
//!
//! The policy: the list of slugs is closed and documented; a message is one sentence for the caller
//! and holds nothing internal; the internal cause is logged once, with the request id, when the
//! response is made. Another tenant's object gets the same response as a missing one, so a
//! `not_found` message names only what the client itself sent. Leaf errors know nothing of HTTP;
//! `mapping` is the only place that maps them.

mod mapping;
mod slug;
mod text;

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, header};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

pub use slug::Slug;
pub(crate) use text::quoted;

/// The body of every error.
#[derive(Serialize, ToSchema)]
pub(crate) struct ErrorBody {
    pub error: Slug,
    /// One sentence for people.
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
}

/// A failed request.
#[derive(Debug)]
pub(crate) struct ApiError {
    slug: Slug,
    message: String,
    /// Boxed, as is the cause: most errors have neither, and every handler returns this type.
    details: Option<Box<Value>>,
    /// The value of the `Retry-After` header.
    retry_after_s: Option<u64>,
    /// The internal cause, for the log only.
    cause: Option<Box<str>>,
}

impl ApiError {
    pub(crate) fn new(slug: Slug, message: impl Into<String>) -> ApiError {
        ApiError { slug, message: message.into(), details: None, retry_after_s: None, cause: None }
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> ApiError {
        ApiError::new(Slug::BadRequest, message)
    }

    pub(crate) fn forbidden(message: impl Into<String>) -> ApiError {
        ApiError::new(Slug::Forbidden, message)
    }

    /// `Skill "nope" not found.`, with the name as the client sent it: the response must not depend
    /// on whether the object is missing or belongs to another tenant.
    pub(crate) fn not_found(object: &str, name: &str) -> ApiError {
        ApiError::new(Slug::NotFound, format!("{object} {} not found.", quoted(name)))
    }

    /// A failure of the server. The cause is logged; the caller gets only the request id.
    pub(crate) fn internal(cause: impl std::fmt::Display) -> ApiError {
        let message = "The server failed. Search its log for the request id.";
        ApiError { cause: Some(cause.to_string().into()), ..ApiError::new(Slug::Internal, message) }
    }

    /// A failure that is likely to be transient: the database or the object store does not respond.
    fn unavailable(cause: impl std::fmt::Display) -> ApiError {
        let message = "A dependency of the server does not respond. Try again shortly.";
        ApiError { cause: Some(cause.to_string().into()), ..ApiError::new(Slug::NotReady, message) }
            .with_retry_after(1)
    }

    pub(crate) fn with_details(self, details: Value) -> ApiError {
        ApiError { details: Some(Box::new(details)), ..self }
    }

    pub(crate) fn with_retry_after(self, retry_after_s: u64) -> ApiError {
        ApiError { retry_after_s: Some(retry_after_s.max(1)), ..self }
    }

    pub(crate) fn slug(&self) -> Slug {
        self.slug
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// The slug and the message, for a caller that gets no HTTP response. Logs the cause, as making
    /// a response does.
    pub(crate) fn into_logged_parts(self) -> (Slug, String) {
        self.log_cause();
        (self.slug, self.message)
    }

    fn log_cause(&self) {
        if let Some(cause) = &self.cause {
            tracing::error!(cause, "request failed");
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        self.log_cause();
        let body = ErrorBody {
            error: self.slug,
            message: self.message,
            details: self.details.map(|details| *details),
        };
        let mut response = (self.slug.status(), axum::Json(body)).into_response();
        let headers = response.headers_mut();
        if self.slug == Slug::Unauthorized {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(seconds) = self.retry_after_s {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// An error with all its sources, for the log.
pub(crate) fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let inner_text = inner.to_string();
        // Some errors already repeat their source in their own message.
        if !text.ends_with(&inner_text) {
            text.push_str(": ");
            text.push_str(&inner_text);
        }
        source = inner.source();
    }
    text
}
