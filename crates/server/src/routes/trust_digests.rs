//! `/v1/trust/digests`: revoked content, which cannot be uploaded or run whatever the policy.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use store::RevokedDigest;
use utoipa::ToSchema;

use crate::app::SharedApp;
use crate::audit::actor;
use crate::auth::{Admin, Allowed};
use crate::error::ApiError;
use crate::http::body::Json;
use crate::http::extract::Path;
use crate::http::paging::{PageQuery, Paging};
use crate::http::timestamp::rfc3339;

const MAX_REASON: usize = 512;

/// Content that was revoked.
#[derive(Serialize, ToSchema)]
pub(crate) struct RevokedDigestView {
    #[schema(example = "sha256:…")]
    digest: String,
    reason: String,
    #[schema(format = "date-time")]
    revoked_at: String,
}

/// Content to be revoked.
#[derive(Deserialize, ToSchema)]
pub(crate) struct DigestToRevoke {
    /// A skill's digest.
    #[schema(pattern = "^sha256:[0-9a-f]{64}$")]
    digest: String,
    reason: Option<String>,
}

/// Revoke content
///
/// No skill with this digest is accepted or run from now on, on every server, queued executions
/// included. Runs in progress continue to their end. Revoking again replaces the reason.
#[utoipa::path(
    post, path = "/v1/trust/digests", tag = "trust", operation_id = "revoke_digest", request_body = DigestToRevoke,
    responses((status = 201, body = RevokedDigestView))
)]
pub(crate) async fn revoke(
    caller: Allowed<Admin>,
    State(app): State<SharedApp>,
    body: Json<DigestToRevoke>,
) -> Result<Response, ApiError> {
    let DigestToRevoke { digest, reason } = body.value;
    let reason = reason.unwrap_or_default();
    if !is_digest(&digest) {
        return Err(ApiError::bad_request(
            "digest must be `sha256:` and 64 lower-case hexadecimal digits.",
        ));
    }
    if reason.chars().count() > MAX_REASON || reason.contains(char::is_control) {
        return Err(ApiError::bad_request(format!(
            "reason must be at most {MAX_REASON} characters on one line."
        )));
    }
    let revoked = app
        .store
        .with_actor(actor(&caller))
        .revoke_digest(&caller.tenant, &digest, &reason)
        .await?;
    Ok((StatusCode::CREATED, axum::Json(RevokedDigestView::from(revoked))).into_response())
}

/// List revoked content
#[utoipa::path(
    get, path = "/v1/trust/digests", tag = "trust", operation_id = "list_revoked_digests", params(PageQuery),
    responses((status = 200, body = Vec<RevokedDigestView>, headers(("Link" = String, description = "The next page"))))
)]
pub(crate) async fn list(
    caller: Allowed<Admin>,
    State(app): State<SharedApp>,
    paging: Paging,
) -> Result<Response, ApiError> {
    let rows =
        app.store.list_revoked_digests(&caller.tenant, &paging.page(&caller.tenant)?).await?;
    Ok(paging.respond(&caller.tenant, rows, RevokedDigest::cursor, |row| {
        Some(RevokedDigestView::from(row))
    }))
}

/// Undo the revocation of content
#[utoipa::path(
    delete, path = "/v1/trust/digests/{digest}", tag = "trust", operation_id = "unrevoke_digest",
    params(("digest" = String, Path)), responses((status = 204, description = "No longer revoked"))
)]
pub(crate) async fn unrevoke(
    caller: Allowed<Admin>,
    State(app): State<SharedApp>,
    Path(digest): Path<String>,
) -> Result<StatusCode, ApiError> {
    if !app.store.with_actor(actor(&caller)).unrevoke_digest(&caller.tenant, &digest).await? {
        return Err(ApiError::not_found("Revoked digest", &digest));
    }
    Ok(StatusCode::NO_CONTENT)
}

fn is_digest(text: &str) -> bool {
    let lower_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    text.strip_prefix("sha256:").is_some_and(|hex| hex.len() == 64 && hex.bytes().all(lower_hex))
}

impl From<RevokedDigest> for RevokedDigestView {
    fn from(revoked: RevokedDigest) -> RevokedDigestView {
        let RevokedDigest { digest, reason, revoked_at } = revoked;
        RevokedDigestView { digest, reason, revoked_at: rfc3339(revoked_at) }
    }
}
