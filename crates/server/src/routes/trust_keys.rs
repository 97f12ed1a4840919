//! `/v1/trust/keys`: the keys whose signatures on skills a tenant trusts.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use skill::signature::{KeyId, PublicKey};
use store::{NewTrustedKey, TrustedKey};
use utoipa::ToSchema;

use crate::app::SharedApp;
use crate::audit::actor;
use crate::auth::{Admin, Allowed};
use crate::error::ApiError;
use crate::http::body::Json;
use crate::http::extract::Path;
use crate::http::paging::{PageQuery, Paging};
use crate::http::timestamp::rfc3339;

const MAX_COMMENT: usize = 256;

/// A public key that may sign this tenant's skills.
#[derive(Serialize, ToSchema)]
pub(crate) struct TrustedKeyView {
    /// As minisign prints it.
    #[schema(example = "406E4FAC70A6468A")]
    key_id: String,
    /// One line of base64, as `minisign -P` takes it.
    public_key: String,
    comment: String,
    #[schema(format = "date-time")]
    added_at: String,
    /// From then on no signature of this key is trusted, whenever it was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = "date-time")]
    revoked_at: Option<String>,
}

/// A key to be trusted.
#[derive(Deserialize, ToSchema)]
pub(crate) struct NewTrustedKeyBody {
    /// The text of a minisign public key file, or its second line alone.
    public_key: String,
    /// The owner of the key.
    comment: Option<String>,
}

/// Trust a key
#[utoipa::path(
    post, path = "/v1/trust/keys", tag = "trust", operation_id = "add_trusted_key", request_body = NewTrustedKeyBody,
    responses(
        (status = 201, body = TrustedKeyView),
        (status = 409, description = "`conflict`: the key was added before; a revoked key cannot be trusted again", body = crate::error::ErrorBody),
    )
)]
pub(crate) async fn add(
    caller: Allowed<Admin>,
    State(app): State<SharedApp>,
    body: Json<NewTrustedKeyBody>,
) -> Result<Response, ApiError> {
    let key: PublicKey = body.value.public_key.parse().map_err(|error| {
        ApiError::bad_request(format!("public_key must be a minisign public key: {error}."))
    })?;
    let comment = body.value.comment.unwrap_or_default();
    if comment.chars().count() > MAX_COMMENT || comment.contains(char::is_control) {
        return Err(ApiError::bad_request(format!(
            "comment must be at most {MAX_COMMENT} characters on one line."
        )));
    }
    let new = NewTrustedKey { key_id: key.id().to_string(), public_key: key.to_string(), comment };
    let added = app.store.with_actor(actor(&caller)).add_trusted_key(&caller.tenant, &new).await?;
    Ok((StatusCode::CREATED, axum::Json(TrustedKeyView::from(added))).into_response())
}

/// List trusted keys
///
/// Including revoked keys.
#[utoipa::path(
    get, path = "/v1/trust/keys", tag = "trust", operation_id = "list_trusted_keys", params(PageQuery),
    responses((status = 200, body = Vec<TrustedKeyView>, headers(("Link" = String, description = "The next page"))))
)]
pub(crate) async fn list(
    caller: Allowed<Admin>,
    State(app): State<SharedApp>,
    paging: Paging,
) -> Result<Response, ApiError> {
    let rows = app.store.list_trusted_keys(&caller.tenant, &paging.page(&caller.tenant)?).await?;
    Ok(paging
        .respond(&caller.tenant, rows, TrustedKey::cursor, |row| Some(TrustedKeyView::from(row))))
}

/// Revoke a trusted key
///
/// Takes effect at once on every server, also for earlier signatures and queued executions. It
/// cannot be undone.
#[utoipa::path(
    delete, path = "/v1/trust/keys/{id}", tag = "trust", operation_id = "revoke_trusted_key",
    params(("id" = String, Path, description = "The key's id, as minisign prints it")),
    responses((status = 204, description = "Revoked"))
)]
pub(crate) async fn revoke(
    caller: Allowed<Admin>,
    State(app): State<SharedApp>,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    let id = id.parse::<KeyId>().map_err(|_| not_found(&id))?.to_string();
    if !app.store.with_actor(actor(&caller)).revoke_trusted_key(&caller.tenant, &id).await? {
        return Err(not_found(&id));
    }
    Ok(StatusCode::NO_CONTENT)
}

fn not_found(id: &str) -> ApiError {
    ApiError::not_found("Trusted key", id)
}

impl From<TrustedKey> for TrustedKeyView {
    fn from(key: TrustedKey) -> TrustedKeyView {
        TrustedKeyView {
            key_id: key.key_id,
            public_key: key.public_key,
            comment: key.comment,
            added_at: rfc3339(key.added_at),
            revoked_at: key.revoked_at.map(rfc3339),
        }
    }
}
