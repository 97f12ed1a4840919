//! Why a call failed, said so that a person knows what to do next.

use serde::Deserialize;
use url::Url;

/// A call that did not give an answer we can use.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The server answered, and the answer is a refusal.
    #[error("{message}{}", request_id.as_deref().map(|id| format!(" (request {id})")).unwrap_or_default())]
    Api {
        status: u16,
        /// The machine-readable cause, such as `not_found`.
        slug: String,
        message: String,
        /// What to look for in the server's log.
        request_id: Option<String>,
    },
    /// Nothing answers at that address.
    #[error(
        "cannot connect to {url}: {cause}. Is the server running? Start it with `skillbox serve`"
    )]
    Connect { url: Url, cause: String },
    /// The answer did not come in time.
    #[error("{url} did not answer in time")]
    Timeout { url: Url },
    /// The connection broke after the request was sent.
    #[error("the connection to {url} broke: {cause}")]
    ConnectionLost { url: Url, cause: String },
    /// Something answers there, but it does not speak our API.
    #[error(
        "{url} sent an answer this client does not understand ({cause}). Is this the address of a Skillbox server?"
    )]
    InvalidResponse { url: Url, cause: String },
    /// The client was set up with something that cannot be sent.
    #[error("{0}")]
    Invalid(String),
}

impl ClientError {
    /// The HTTP status, when the server answered with one.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Api { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// The error slug, when the server answered with one.
    pub fn slug(&self) -> Option<&str> {
        match self {
            Self::Api { slug, .. } => Some(slug),
            _ => None,
        }
    }

    pub(crate) fn transport(url: &Url, error: &reqwest::Error) -> Self {
        let url = without_query(url);
        let cause = innermost(error);
        if error.is_builder() {
            Self::Invalid(format!("cannot send the request: {cause}"))
        } else if error.is_connect() {
            Self::Connect { url, cause }
        } else if error.is_timeout() {
            Self::Timeout { url }
        } else if error.is_decode() {
            Self::InvalidResponse { url, cause }
        } else {
            Self::ConnectionLost { url, cause }
        }
    }

    /// Reads a refusal; a body that is not ours (a proxy's page) still gives a sentence.
    pub(crate) fn from_error_response(
        status: u16,
        request_id: Option<String>,
        body: &[u8],
    ) -> Self {
        let (slug, message) = match serde_json::from_slice::<ErrorBody>(body) {
            Ok(body) => (body.error, body.message),
            Err(_) => (
                "unknown".to_owned(),
                format!(
                    "the server answered with HTTP {status} and no Skillbox error; is --server right?"
                ),
            ),
        };
        Self::Api { status, slug, message, request_id }
    }
}

#[derive(Deserialize)]
struct ErrorBody {
    error: String,
    #[serde(default)]
    message: String,
}

/// A URL without its query, which in signed URLs is a secret.
pub(crate) fn without_query(url: &Url) -> Url {
    let mut url = url.clone();
    url.set_query(None);
    url
}

/// The last cause of a chain: the outer ones repeat what we already say.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_keeps_slug_message_and_request_id() {
        let error = ClientError::from_error_response(
            404,
            Some("r1".into()),
            br#"{"error":"not_found","message":"No such skill.","details":{}}"#,
        );
        assert_eq!(error.status(), Some(404));
        assert_eq!(error.slug(), Some("not_found"));
        assert_eq!(error.to_string(), "No such skill. (request r1)");
    }

    #[test]
    fn a_foreign_refusal_still_makes_a_sentence() {
        let error = ClientError::from_error_response(502, None, b"<html>Bad gateway</html>");
        assert_eq!(error.slug(), Some("unknown"));
        assert!(error.to_string().contains("HTTP 502"), "{error}");
    }

    #[test]
    fn a_signed_query_is_not_shown() {
        let url = Url::parse("http://h/blobs/x?token=secret").expect("a URL");
        assert_eq!(without_query(&url).as_str(), "http://h/blobs/x");
    }
}
