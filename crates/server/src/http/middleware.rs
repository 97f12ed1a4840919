//! Middleware and fallbacks of every route: unknown routes, wrong methods, panics, and the headers of
//! all responses.

use std::any::Any;

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, header};

use crate::error::{ApiError, Slug};

pub(crate) async fn unknown_route() -> ApiError {
    ApiError::new(Slug::NotFound, "The route was not found. GET /openapi.json lists all routes.")
}

/// axum adds the `Allow` header to this response.
pub(crate) async fn wrong_method() -> ApiError {
    ApiError::new(
        Slug::MethodNotAllowed,
        "Method not allowed. The header `Allow` lists the methods of this route.",
    )
}

/// A panic is an internal error and ends only its own request.
pub(crate) fn respond_to_panic(panic: Box<dyn Any + Send>) -> Response {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("a panic without a message");
    ApiError::internal(format!("panic: {text}")).into_response()
}

/// Sets the headers of every response: not cached, and never interpreted as another content type.
pub(crate) async fn set_headers(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}
