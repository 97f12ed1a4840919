//! `/v1/audit`: who changed what.

use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use serde_json::Value;
use store::Audit;
use utoipa::ToSchema;

use crate::app::Shared;
use crate::auth::{Admin, Allowed};
use crate::error::ApiError;
use crate::paging::{PageQuery, Paging};
use crate::time::rfc3339;

/// One change.
#[derive(Serialize, ToSchema)]
pub struct AuditEntry {
    #[schema(format = "uuid")]
    id: String,
    tenant_id: String,
    /// The key that did it; absent when a token did, whose `sub` is then in `detail.subject`, or the server itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = "uuid")]
    actor: Option<String>,
    #[schema(example = "skill.publish")]
    action: String,
    #[schema(example = "word-count@1.0.0")]
    object: String,
    detail: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<String>,
    #[schema(format = "date-time")]
    created_at: String,
}

/// Read the audit trail
///
/// Newest first.
#[utoipa::path(
    get, path = "/v1/audit", tag = "administration", operation_id = "list_audit", params(PageQuery),
    responses((status = 200, body = Vec<AuditEntry>, headers(("Link" = String, description = "The next page"))))
)]
pub async fn list(caller: Allowed<Admin>, State(app): State<Shared>, paging: Paging) -> Result<Response, ApiError> {
    let page = paging.page(&caller.tenant)?;
    let rows = app.store.list_audit(&caller.tenant, &page).await?;
    let view = |row: Audit| {
        Some(AuditEntry {
            id: row.id.to_string(),
            tenant_id: row.tenant.to_string(),
            actor: row.actor.map(|id| id.to_string()),
            action: row.action,
            object: row.object,
            detail: row.detail,
            request_id: row.request_id,
            created_at: rfc3339(row.created_at),
        })
    };
    Ok(paging.answer(&caller.tenant, rows, Audit::cursor, view))
}
