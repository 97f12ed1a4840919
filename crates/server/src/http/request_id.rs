//! The request id: on every response and in every log line of the request.

use std::time::Instant;

use axum::extract::{MatchedPath, Request};
use axum::middleware::Next;
use axum::response::Response;
use http::{HeaderName, HeaderValue};
use tracing::Instrument;
use uuid::Uuid;

pub(crate) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The id of the current request.
#[derive(Clone, Debug)]
pub(crate) struct RequestId(pub String);

/// Uses the client's id if it is valid, else generates one; opens the span of all log lines of the
/// request.
pub(crate) async fn assign_request_id(mut request: Request, next: Next) -> Response {
    let id = request.headers().get(X_REQUEST_ID).and_then(valid_id);
    let id = id.unwrap_or_else(|| Uuid::now_v7().to_string());
    request.extensions_mut().insert(RequestId(id.clone()));
    // The route, not the path: paths can contain signed tokens.
    let route =
        request.extensions().get::<MatchedPath>().map_or("-", MatchedPath::as_str).to_owned();
    let span = tracing::info_span!("request", id, method = %request.method(), route);
    async move {
        let start = Instant::now();
        let mut response = next.run(request).await;
        tracing::debug!(
            status = response.status().as_u16(),
            ms = start.elapsed().as_millis(),
            "answered"
        );
        if let Ok(value) = HeaderValue::from_str(&id) {
            response.headers_mut().insert(X_REQUEST_ID, value);
        }
        response
    }
    .instrument(span)
    .await
}

fn valid_id(value: &HeaderValue) -> Option<String> {
    let text = value.to_str().ok()?;
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=128).contains(&text.len()).then_some(())?;
    text.bytes().all(allowed).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_short_plain_ids_are_accepted() {
        let accepted = |text: &'static str| valid_id(&HeaderValue::from_static(text));
        assert_eq!(accepted("abc-1.2_Z"), Some("abc-1.2_Z".into()));
        for odd in ["", "a b", "a\"b", "<script>", "a/b"] {
            assert_eq!(accepted(odd), None, "{odd:?}");
        }
        let long = HeaderValue::from_str(&"a".repeat(129)).expect("a header");
        assert_eq!(valid_id(&long), None);
    }
}
