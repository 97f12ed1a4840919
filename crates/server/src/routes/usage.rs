//! `/v1/usage`: the stored amount of a tenant, and its quota.

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::SharedApp;
use crate::auth::{Allowed, Read};
use crate::error::ApiError;

/// The stored amount of a tenant: skills, files, artifacts and their archives, inputs, logs and
/// outputs.
#[derive(Serialize, ToSchema)]
pub(crate) struct TenantUsage {
    stored_bytes: i64,
    /// The tenant's quota, or the server's default; absent when there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_stored_bytes: Option<i64>,
}

/// Read the stored amount
///
/// Uploads beyond `max_stored_bytes` are refused with 413 `quota_exceeded`; a run whose result
/// exceeds it fails without its files, output and logs.
#[utoipa::path(
    get, path = "/v1/usage", tag = "administration", operation_id = "get_usage", responses((status = 200, body = TenantUsage))
)]
pub(crate) async fn get(
    caller: Allowed<Read>,
    State(app): State<SharedApp>,
) -> Result<axum::Json<TenantUsage>, ApiError> {
    let usage = app.store.storage_usage(&caller.tenant).await?;
    Ok(axum::Json(TenantUsage {
        stored_bytes: usage.used_bytes,
        max_stored_bytes: usage.limit_bytes,
    }))
}
