//! Self-authenticating download URLs, made fresh on every read and never stored.

use axum::extract::FromRequestParts;
use blobs::{Claims, Key};
use http::request::Parts;

use crate::app::Shared;
use crate::error::ApiError;
use crate::origin::Origin;

/// Makes download URLs for one request.
pub struct Links {
    app: Shared,
    origin: Origin,
    expires_at_unix: i64,
}

impl FromRequestParts<Shared> for Links {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Shared) -> Result<Self, ApiError> {
        let origin = Origin::from_request_parts(parts, app).await?;
        let ttl = i64::try_from(app.limits.url_ttl.as_secs()).unwrap_or(i64::MAX / 2);
        let expires_at_unix = unix_now() + ttl.max(1);
        Ok(Links { app: app.clone(), origin, expires_at_unix })
    }
}

impl Links {
    pub fn url(&self, key: Key, file_name: &str, content_type: &str) -> String {
        let token = self.app.signer.sign(&Claims {
            key,
            filename: file_name.to_owned(),
            content_type: content_type.to_owned(),
            expires_at: self.expires_at_unix,
        });
        format!("{}/v1/blobs/{token}", self.origin.0)
    }
}

/// Seconds since 1970.
pub fn unix_now() -> i64 {
    store::now() / 1_000_000
}
