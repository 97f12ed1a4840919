//! `/v1/trust/versions`: the newest signed version of each skill. `latest` never resolves to an
//! older one.

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use serde::Serialize;
use store::NewestSigned;
use utoipa::ToSchema;

use crate::app::SharedApp;
use crate::audit::actor;
use crate::auth::{Admin, Allowed};
use crate::error::ApiError;
use crate::http::extract::Path;
use crate::http::paging::{PageQuery, Paging};
use crate::http::timestamp::rfc3339;

/// The highest version of a skill that was uploaded with a trusted signature.
#[derive(Serialize, ToSchema)]
pub(crate) struct NewestVersion {
    name: String,
    version: String,
    #[schema(format = "date-time")]
    accepted_at: String,
}

/// List the newest signed versions
#[utoipa::path(
    get, path = "/v1/trust/versions", tag = "trust", operation_id = "list_newest_versions", params(PageQuery),
    responses((status = 200, body = Vec<NewestVersion>, headers(("Link" = String, description = "The next page"))))
)]
pub(crate) async fn list(
    caller: Allowed<Admin>,
    State(app): State<SharedApp>,
    paging: Paging,
) -> Result<Response, ApiError> {
    let rows = app.store.list_newest_signed(&caller.tenant, &paging.page(&caller.tenant)?).await?;
    let view = |newest: NewestSigned| {
        let NewestSigned { name, version, accepted_at } = newest;
        Some(NewestVersion { name, version, accepted_at: rfc3339(accepted_at) })
    };
    Ok(paging.respond(&caller.tenant, rows, NewestSigned::cursor, view))
}

/// Allow an older version of a skill
///
/// Deletes the record of the newest signed version, so that an older version can be uploaded and be
/// `latest` again.
#[utoipa::path(
    delete, path = "/v1/trust/versions/{name}", tag = "trust", operation_id = "forget_newest_version",
    params(("name" = String, Path)), responses((status = 204, description = "Deleted"))
)]
pub(crate) async fn forget(
    caller: Allowed<Admin>,
    State(app): State<SharedApp>,
    Path(name): Path<String>,
) -> Result<StatusCode, ApiError> {
    if !app.store.with_actor(actor(&caller)).reset_newest_signed(&caller.tenant, &name).await? {
        return Err(ApiError::not_found("Newest signed version of skill", &name));
    }
    Ok(StatusCode::NO_CONTENT)
}
