//! What holds for every request: unknown routes, wrong methods, panics, and the headers of all
//! responses.

use std::any::Any;

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, header};

use crate::error::{ApiError, Slug};

pub async fn unknown_route() -> ApiError {
    ApiError::new(Slug::NotFound, "There is no such route. GET /openapi.json lists them.")
}

/// axum adds `Allow` to this answer.
pub async fn wrong_method() -> ApiError {
    ApiError::new(Slug::MethodNotAllowed, "This route does not know this method.")
}

/// A panic is our failure and ends only the request it happened in.
pub fn panicked(panic: Box<dyn Any + Send>) -> Response {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("a panic without a message");
    ApiError::internal(format!("panic: {text}")).into_response()
}

/// Answers are private, current, and exactly of the type they say.
pub async fn headers(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}
