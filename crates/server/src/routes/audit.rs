//! `/v1/audit`: the audit log of a tenant, and its signed head.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header;
use serde::Serialize;
use serde_json::Value;
use store::AuditRecord;
use utoipa::ToSchema;

use crate::app::SharedApp;
use crate::auth::{Admin, Allowed};
use crate::error::{ApiError, Slug};
use crate::http::paging::{PageQuery, Paging};
use crate::http::timestamp::rfc3339;

/// One change.
#[derive(Serialize, ToSchema)]
pub(crate) struct AuditEntry {
    #[schema(format = "uuid")]
    id: String,
    tenant_id: String,
    /// The key of the change; absent for a change with a token, whose `sub` is then in
    /// `detail.subject`, and for a change by the server itself.
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
    /// The number in the tenant's chain, from 1. Absent, like `hash`, in entries that are older
    /// than the chain.
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<i64>,
    /// SHA-256 over this entry and the hash of the one before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    hash: Option<String>,
}

/// The signed head of an audit log. The signature covers the exact bytes: store them unchanged.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only its schema is used; a head is stored as it was signed")]
pub(crate) struct SignedAuditHead {
    #[schema(rename = "type", example = "skillbox audit head 1")]
    kind: String,
    /// JSON text, exactly as it was signed: `tenant_id`, `seq` and `hash` of the last entry, and
    /// how many entries are `unchained`, from before the chain.
    payload: String,
    /// A minisign signature over `payload`, by the key of `GET /v1/receipts/key`.
    signature: String,
}

/// Read the audit log
///
/// Newest first.
#[utoipa::path(
    get, path = "/v1/audit", tag = "administration", operation_id = "list_audit", params(PageQuery),
    responses((status = 200, body = Vec<AuditEntry>, headers(("Link" = String, description = "The next page"))))
)]
pub(crate) async fn list(
    caller: Allowed<Admin>,
    State(app): State<SharedApp>,
    paging: Paging,
) -> Result<Response, ApiError> {
    let page = paging.page(&caller.tenant)?;
    let rows = app.store.list_audit_records(&caller.tenant, &page).await?;
    let view = |row: AuditRecord| {
        Some(AuditEntry {
            id: row.id.to_string(),
            tenant_id: row.tenant.to_string(),
            actor: row.actor.map(|id| id.to_string()),
            action: row.action,
            object: row.object,
            detail: row.detail,
            request_id: row.request_id,
            created_at: rfc3339(row.created_at),
            seq: row.seq,
            hash: row.hash,
        })
    };
    Ok(paging.respond(&caller.tenant, rows, AuditRecord::cursor, view))
}

/// Read the signed head of the audit log
///
/// It names the last entry and thereby the whole log. With a stored head, `skillbox audit-log
/// verify` proves later that no earlier entry was changed or removed.
#[utoipa::path(
    get, path = "/v1/audit/head", tag = "administration", operation_id = "get_audit_head",
    responses(
        (status = 200, body = SignedAuditHead),
        (status = 409, description = "`conflict`: the stored head was not signed by this server", body = crate::error::ErrorBody),
    )
)]
pub(crate) async fn head(
    caller: Allowed<Admin>,
    State(app): State<SharedApp>,
) -> Result<Response, ApiError> {
    let stored = app.store.audit_head(&caller.tenant).await?.ok_or_else(|| {
        ApiError::new(Slug::NotFound, "The audit log has no head yet: nothing was changed.")
    })?;
    let signed = stored.signed.ok_or_else(|| {
        let message =
            "The head of this audit log is not signed: an earlier one was changed in the database.";
        ApiError::new(Slug::Conflict, message)
    })?;
    Ok(([(header::CONTENT_TYPE, "application/json")], signed).into_response())
}
