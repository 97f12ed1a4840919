//! Messages of the protocol as far as they must be known before, or instead of, the SDK's reading.

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

const LAST_EVENT: &str = "last-event-id";

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    method: Cow<'a, str>,
}

/// Only `initialize` begins a session.
pub fn begins_session(body: &[u8]) -> bool {
    serde_json::from_slice::<Envelope<'_>>(body).is_ok_and(|message| message.method == "initialize")
}

/// Whether the SDK takes the body for a message.
pub fn is_json(headers: &HeaderMap) -> bool {
    headers
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"))
}

/// Whether a client asks for the rest of an answer. The ids of events that belong to none have no
/// slash: who goes on to listen for news does not thereby want its runs.
pub fn resumes_answer(headers: &HeaderMap) -> bool {
    headers.get(LAST_EVENT).is_some_and(|id| id.as_bytes().contains(&b'/'))
}

/// What the SDK calls an unsupported type is also a body of the right type that it cannot read.
pub fn unreadable(body: &[u8]) -> McpResponse {
    let well_formed = serde_json::from_slice::<IgnoredAny>(body).is_ok();
    let batch = body.trim_ascii_start().starts_with(b"[");
    let (code, message) = match (well_formed, batch) {
        (false, _) => (ErrorCode::PARSE_ERROR, "The body is not JSON."),
        (true, true) => {
            (ErrorCode::INVALID_REQUEST, "Send one message at a time, not an array of them.")
        }
        (true, false) => (ErrorCode::INVALID_REQUEST, "The body is not a message of JSON-RPC 2.0."),
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
    fn only_initialize_begins_a_session() {
        assert!(begins_session(
            br#"{"jsonrpc":"2.0","id":1,"method":"initi\u0061lize","params":{}}"#
        ));
        for other in [&b"{"[..], b"[]", br#"{"method":"tools/list"}"#, br#"{"method":7}"#, b""] {
            assert!(!begins_session(other));
        }
    }

    #[tokio::test]
    async fn what_cannot_be_read_is_said() {
        for (body, code) in [("{", -32700), ("[]", -32600), ("{}", -32600), ("7", -32600)] {
            let answer = unreadable(body.as_bytes());
            assert_eq!(answer.status(), 400);
            let said = answer.into_body().collect().await.expect("a body").to_bytes();
            let said: serde_json::Value = serde_json::from_slice(&said).expect("JSON");
            assert_eq!(said["error"]["code"], code, "{body}");
        }
    }
}
