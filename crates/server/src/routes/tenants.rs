//! `/v1/tenants`: for the operator, with a service key.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::json;
use store::{Tenant, TenantId, TenantPolicy, VersionPolicy};
use utoipa::ToSchema;

use crate::app::{App, Shared};
use crate::audit;
use crate::auth::{Allowed, Operate};
use crate::body::{Json, Object};
use crate::error::ApiError;
use crate::extract::Path;
use crate::paging::{PageQuery, Paging};
use crate::time::rfc3339;

/// A tenant.
#[derive(Serialize, ToSchema)]
pub struct TenantView {
    id: String,
    policy: Policy,
    #[schema(format = "date-time")]
    created_at: String,
}

/// What a tenant may do.
#[derive(Serialize, Deserialize, ToSchema, Default)]
#[serde(default)]
pub struct Policy {
    versions: Versions,
    /// How many of its executions may run at once; unlimited when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    max_concurrent: Option<u32>,
}

/// Whether a published version may be replaced by other content.
#[derive(Serialize, Deserialize, ToSchema, Default, Clone, Copy)]
#[serde(rename_all = "lowercase")]
pub enum Versions {
    #[default]
    Mutable,
    Immutable,
}

/// A tenant to be made.
#[derive(Deserialize, ToSchema)]
pub struct NewTenant {
    /// A letter or digit, then up to 63 letters, digits, `.`, `_` or `-`.
    #[schema(example = "acme")]
    id: String,
    #[schema(value_type = Option<Policy>)]
    policy: Option<Object<Policy>>,
}

/// A change of a tenant.
#[derive(Deserialize, ToSchema)]
pub struct TenantChange {
    #[schema(value_type = Policy)]
    policy: Object<Policy>,
}

/// Make a tenant
#[utoipa::path(
    post, path = "/v1/tenants", tag = "administration", operation_id = "create_tenant", request_body = NewTenant,
    responses(
        (status = 201, body = TenantView),
        (status = 409, description = "`conflict`: it exists", body = crate::error::ErrorBody),
    )
)]
pub async fn create(
    caller: Allowed<Operate>,
    State(app): State<Shared>,
    body: Json<NewTenant>,
) -> Result<Response, ApiError> {
    let id = TenantId::try_from(body.value.id.as_str()).map_err(|_| {
        ApiError::bad_request("id must be a letter or digit, then up to 63 letters, digits, `.`, `_` or `-`.")
    })?;
    let policy = body.value.policy.map(|Object(policy)| policy).unwrap_or_default().checked()?;
    let tenant = app.store.create_tenant(&id, policy).await?;
    audit::record(&app, &caller, "tenant.create", id.as_str(), json!({})).await?;
    Ok((StatusCode::CREATED, axum::Json(TenantView::from(tenant))).into_response())
}

/// List tenants
#[utoipa::path(
    get, path = "/v1/tenants", tag = "administration", operation_id = "list_tenants", params(PageQuery),
    responses((status = 200, body = Vec<TenantView>, headers(("Link" = String, description = "The next page"))))
)]
pub async fn list(caller: Allowed<Operate>, State(app): State<Shared>, paging: Paging) -> Result<Response, ApiError> {
    let rows = app.store.list_tenants(&paging.page(&caller.tenant)?).await?;
    Ok(paging.answer(&caller.tenant, rows, Tenant::cursor, |row| Some(TenantView::from(row))))
}

/// Read a tenant
#[utoipa::path(
    get, path = "/v1/tenants/{id}", tag = "administration", operation_id = "get_tenant", params(("id" = String, Path)),
    responses((status = 200, body = TenantView))
)]
pub async fn get(
    _: Allowed<Operate>,
    State(app): State<Shared>,
    Path(id): Path<String>,
) -> Result<axum::Json<TenantView>, ApiError> {
    Ok(axum::Json(find(&app, &id).await?.into()))
}

/// Change a tenant's policy
///
/// The policy is replaced as a whole; what is left out takes its default.
#[utoipa::path(
    put, path = "/v1/tenants/{id}", tag = "administration", operation_id = "update_tenant", params(("id" = String, Path)),
    request_body = TenantChange, responses((status = 200, body = TenantView))
)]
pub async fn update(
    caller: Allowed<Operate>,
    State(app): State<Shared>,
    Path(id): Path<String>,
    body: Json<TenantChange>,
) -> Result<axum::Json<TenantView>, ApiError> {
    let mut tenant = find(&app, &id).await?;
    let Object(policy) = body.value.policy;
    let detail = json!({ "policy": policy });
    tenant.policy = policy.checked()?;
    if !app.store.update_tenant_policy(&tenant.id, &tenant.policy).await? {
        return Err(ApiError::not_found());
    }
    audit::record(&app, &caller, "tenant.update", tenant.id.as_str(), detail).await?;
    Ok(axum::Json(tenant.into()))
}

/// Delete an empty tenant
#[utoipa::path(
    delete, path = "/v1/tenants/{id}", tag = "administration", operation_id = "delete_tenant", params(("id" = String, Path)),
    responses(
        (status = 204, description = "Deleted"),
        (status = 409, description = "`conflict`: it still has skills, executions, files or live keys", body = crate::error::ErrorBody),
    )
)]
pub async fn delete(
    caller: Allowed<Operate>,
    State(app): State<Shared>,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    let tenant = find(&app, &id).await?;
    if !app.store.delete_tenant(&tenant.id).await? {
        return Err(ApiError::not_found());
    }
    app.keyring.forget();
    audit::record(&app, &caller, "tenant.delete", tenant.id.as_str(), json!({})).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn find(app: &App, id: &str) -> Result<Tenant, ApiError> {
    let id = TenantId::try_from(id).map_err(|_| ApiError::not_found())?;
    app.store.get_tenant(&id).await?.ok_or_else(ApiError::not_found)
}

impl Policy {
    fn checked(self) -> Result<TenantPolicy, ApiError> {
        if self.max_concurrent == Some(0) {
            return Err(ApiError::bad_request("policy.max_concurrent must be at least 1."));
        }
        let versions = match self.versions {
            Versions::Mutable => VersionPolicy::Mutable,
            Versions::Immutable => VersionPolicy::Immutable,
        };
        Ok(TenantPolicy { versions, max_concurrent: self.max_concurrent })
    }
}

impl From<Tenant> for TenantView {
    fn from(tenant: Tenant) -> TenantView {
        let versions = match tenant.policy.versions {
            VersionPolicy::Mutable => Versions::Mutable,
            VersionPolicy::Immutable => Versions::Immutable,
        };
        TenantView {
            id: tenant.id.to_string(),
            policy: Policy { versions, max_concurrent: tenant.policy.max_concurrent },
            created_at: rfc3339(tenant.created_at),
        }
    }
}
