//! `/openapi.json` and `/docs`: the OpenAPI document, and a page that shows it. The page loads
//! nothing from other hosts.

use std::sync::LazyLock;

use axum::response::{IntoResponse, Response};
use http::header;

/// Compact like every other answer; the committed file is the one for people.
static DESCRIPTION: LazyLock<String> =
    LazyLock::new(|| crate::openapi().to_json().expect("the description is plain data"));

/// The page loads its own script, style and description, and nothing else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";

/// The OpenAPI document
#[utoipa::path(
    get, path = "/openapi.json", tag = "health", operation_id = "openapi", security(()),
    responses((status = 200, description = "OpenAPI 3.1", body = serde_json::Value))
)]
pub(crate) async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], DESCRIPTION.as_str()).into_response()
}

pub(crate) async fn page() -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
    ];
    (headers, include_str!("../../assets/docs.html")).into_response()
}

pub(crate) async fn style() -> Response {
    ([(header::CONTENT_TYPE, "text/css; charset=utf-8")], include_str!("../../assets/docs.css"))
        .into_response()
}

pub(crate) async fn script() -> Response {
    let headers = [(header::CONTENT_TYPE, "text/javascript; charset=utf-8")];
    (headers, include_str!("../../assets/docs.js")).into_response()
}
