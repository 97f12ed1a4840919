//! Self-authenticating download URLs, created for each response and never stored.

use axum::extract::FromRequestParts;
use blobs::{BlobKey, DownloadClaims};
use http::request::Parts;

use crate::app::SharedApp;
use crate::error::ApiError;
use crate::http::origin::Origin;

/// Creates download URLs for one request.
pub(crate) struct DownloadLinks {
    app: SharedApp,
    origin: Origin,
}

impl FromRequestParts<SharedApp> for DownloadLinks {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &SharedApp) -> Result<Self, ApiError> {
        let origin = Origin::from_request_parts(parts, app).await?;
        Ok(DownloadLinks { app: app.clone(), origin })
    }
}

impl DownloadLinks {
    /// A presigned URL of the object store, or a URL of this server where there is none.
    pub(crate) fn url(
        &self,
        key: BlobKey,
        file_name: &str,
        content_type: &str,
    ) -> Result<String, ApiError> {
        let ttl = self.app.limits.url_ttl;
        if let Some(url) = self.app.blobs.presign(&key, file_name, content_type, ttl)? {
            return Ok(url);
        }
        let ttl_s = i64::try_from(ttl.as_secs()).unwrap_or(i64::MAX / 2);
        let token = self.app.signer.sign(&DownloadClaims {
            key,
            filename: file_name.to_owned(),
            content_type: content_type.to_owned(),
            // The current second has begun already: rounded up, a URL is valid for its whole time.
            expires_at: unix_now() + 1 + ttl_s.max(1),
        });
        Ok(format!("{}/v1/blobs/{token}", self.origin.0))
    }
}

/// Seconds since 1970.
pub(crate) fn unix_now() -> i64 {
    store::now() / 1_000_000
}
