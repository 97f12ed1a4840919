//! The base of absolute URLs: the address under which the caller reached this server.

use axum::extract::FromRequestParts;
use http::header;
use http::request::Parts;
use http::uri::Authority;

use crate::app::SharedApp;
use crate::error::ApiError;

/// Scheme and host without a trailing slash. The caller controls the `Host` header, but only its own
/// response contains it.
#[derive(Clone)]
pub(crate) struct Origin(pub String);

impl FromRequestParts<SharedApp> for Origin {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &SharedApp) -> Result<Self, ApiError> {
        if let Some(url) = &app.public_url {
            return Ok(Origin(url.clone()));
        }
        let header = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let authority = header.and_then(|host| host.parse::<Authority>().ok());
        let host = authority
            .or_else(|| parts.uri.authority().cloned())
            .filter(|host| !host.as_str().contains('@'));
        // Without a host the URLs are relative, which still works for this caller.
        Ok(Origin(host.map(|host| format!("http://{host}")).unwrap_or_default()))
    }
}
