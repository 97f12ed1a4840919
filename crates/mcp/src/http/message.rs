//! What must be known of a message before the SDK parses it, and the response to one that the SDK
//! cannot parse.

use std::borrow::Cow;
use std::convert::Infallible;

use ::http::{HeaderMap, Response, StatusCode, header};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use rmcp::model::ErrorCode;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;

use super::McpResponse;

const LAST_EVENT_ID: &str = "last-event-id";

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    method: Cow<'a, str>,
}

/// Whether the message creates a session, which only `initialize` does.
pub(super) fn creates_session(body: &[u8]) -> bool {
    serde_json::from_slice::<Envelope<'_>>(body).is_ok_and(|message| message.method == "initialize")
}

/// Whether the SDK parses the body as a message.
pub(super) fn is_json(headers: &HeaderMap) -> bool {
    headers
        .get(header::CONTENT_TYPE)
        .is_some_and(|value| value.as_bytes().starts_with(b"application/json"))
}

/// Whether a client resumes a response. Only the ids of events of a response have a slash: a client
/// that resumes the stream of notifications does not keep its runs alive by that.
pub(super) fn resumes_response(headers: &HeaderMap) -> bool {
    headers.get(LAST_EVENT_ID).is_some_and(|id| id.as_bytes().contains(&b'/'))
}

/// The response to a JSON body that is no message. The SDK answers it as an unsupported media type,
/// which would send a developer in the wrong direction.
pub(super) fn invalid_message(body: &[u8]) -> McpResponse {
    let well_formed = serde_json::from_slice::<IgnoredAny>(body).is_ok();
    let batch = body.trim_ascii_start().starts_with(b"[");
    let (code, message) = match (well_formed, batch) {
        (false, _) => (ErrorCode::PARSE_ERROR, "The body is not JSON."),
        (true, true) => {
            (ErrorCode::INVALID_REQUEST, "Send one message at a time, not an array of them.")
        }
        (true, false) => (ErrorCode::INVALID_REQUEST, "The body is not a JSON-RPC 2.0 message."),
    };
    let error =
        json!({ "jsonrpc": "2.0", "id": null, "error": { "code": code, "message": message } });
    let body = Full::<Bytes>::from(error.to_string())
        .map_err(|never: Infallible| match never {})
        .boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::BAD_REQUEST;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_initialize_creates_a_session() {
        assert!(creates_session(
            br#"{"jsonrpc":"2.0","id":1,"method":"initi\u0061lize","params":{}}"#
        ));
        for other in [&b"{"[..], b"[]", br#"{"method":"tools/list"}"#, br#"{"method":7}"#, b""] {
            assert!(!creates_session(other));
        }
    }

    #[tokio::test]
    async fn invalid_messages_get_a_json_rpc_error() {
        for (body, code) in [("{", -32700), ("[]", -32600), ("{}", -32600), ("7", -32600)] {
            let response = invalid_message(body.as_bytes());
            assert_eq!(response.status(), 400);
            let body_json = response.into_body().collect().await.expect("a body").to_bytes();
            let error: serde_json::Value = serde_json::from_slice(&body_json).expect("JSON");
            assert_eq!(error["error"]["code"], code, "{body}");
        }
    }
}
