//! Permission to read the metrics: they are about the whole installation, so the key of a tenant does
//! not grant it.

use axum::extract::FromRequestParts;
use http::request::Parts;
use subtle::ConstantTimeEq;

use super::{Allowed, Operate, bearer};
use crate::app::SharedApp;
use crate::error::ApiError;

/// Proof that the caller has the metrics token, or administers the installation. The token is
/// checked first, because that needs no database: metrics stay readable while it is down.
pub(crate) struct MetricsReader;

impl FromRequestParts<SharedApp> for MetricsReader {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &SharedApp) -> Result<Self, ApiError> {
        if let (Some(token), Some(credential)) = (&app.metrics.token, bearer(parts))
            && bool::from(token.as_bytes().ct_eq(credential.as_bytes()))
        {
            return Ok(MetricsReader);
        }
        Allowed::<Operate>::from_request_parts(parts, app).await.map(|_| MetricsReader)
    }
}
