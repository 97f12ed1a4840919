//! The address the caller reached us under: what absolute URLs start with.

use axum::extract::FromRequestParts;
use http::header;
use http::request::Parts;
use http::uri::Authority;

use crate::app::SharedApp;
use crate::error::ApiError;

/// Scheme and host without a trailing slash. A caller who lies about the host only misleads itself.
#[derive(Clone)]
pub struct Origin(pub String);

impl FromRequestParts<SharedApp> for Origin {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &SharedApp) -> Result<Self, ApiError> {
        if let Some(url) = &app.public_url {
            return Ok(Origin(url.clone()));
        }
        let header = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let named = header.and_then(|host| host.parse::<Authority>().ok());
        let host = named
            .or_else(|| parts.uri.authority().cloned())
            .filter(|host| !host.as_str().contains('@'));
        // Relative URLs still work for a caller that named no host.
        Ok(Origin(host.map(|host| format!("http://{host}")).unwrap_or_default()))
    }
}
