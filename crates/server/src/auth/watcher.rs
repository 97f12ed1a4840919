//! Who may read the metrics: they are about the whole installation, so no tenant's own key opens
//! them.

use axum::extract::FromRequestParts;
use http::request::Parts;
use subtle::ConstantTimeEq;

use super::{Allowed, Operate, bearer};
use crate::app::SharedApp;
use crate::error::ApiError;

/// Proof that the caller has the token for metrics, or administers the installation. The token is
/// asked for first, because that needs no database.
pub struct MetricsReader;

impl FromRequestParts<SharedApp> for MetricsReader {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &SharedApp) -> Result<Self, ApiError> {
        if let (Some(token), Some(given)) = (&app.metrics.token, bearer(parts))
            && bool::from(token.as_bytes().ct_eq(given.as_bytes()))
        {
            return Ok(MetricsReader);
        }
        Allowed::<Operate>::from_request_parts(parts, app).await.map(|_| MetricsReader)
    }
}
