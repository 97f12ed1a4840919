//! `/v1/tenants`: tenants and their policies, for operators with a service key.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use store::{ScanPolicy, SignaturePolicy, Tenant, TenantId, TenantPolicy, VersionPolicy};
use utoipa::ToSchema;

use crate::app::{App, SharedApp};
use crate::audit::actor;
use crate::auth::{Allowed, Operate};
use crate::error::ApiError;
use crate::http::body::{Json, JsonObject};
use crate::http::extract::Path;
use crate::http::paging::{PageQuery, Paging};
use crate::http::timestamp::rfc3339;

/// A tenant.
#[derive(Serialize, ToSchema)]
pub(crate) struct TenantView {
    id: String,
    policy: Policy,
    #[schema(format = "date-time")]
    created_at: String,
}

/// The policy of a tenant. An absent limit means no limit.
#[derive(Serialize, Deserialize, ToSchema, Default)]
#[serde(default)]
pub(crate) struct Policy {
    versions: Versions,
    scan: Scan,
    /// How many of its executions may run at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    max_concurrent: Option<u32>,
    /// How many of its executions may be queued at once; more are refused with 429 `too_busy`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    max_queued: Option<u32>,
    /// How many executions it may request per minute; more are refused with 429 `rate_limited`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    rate_per_minute: Option<u32>,
    /// How many bytes of uploaded files it may keep; more are refused with 413 `quota_exceeded`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    max_file_bytes: Option<u64>,
    /// How many bytes it may store in all: skills, files, artifacts, inputs, logs and outputs.
    /// Absent: the server's default. More are refused with 413 `quota_exceeded`; `/v1/usage` has
    /// the stored amount.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    max_stored_bytes: Option<u64>,
    /// Its share of the workers, relative to other tenants with queued executions.
    #[schema(minimum = 1, maximum = 1000, default = 1)]
    weight: Weight,
    signatures: Signatures,
}

/// How skills without a trusted signature are treated.
#[derive(Serialize, Deserialize, ToSchema, Default, Clone, Copy)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Signatures {
    /// Signatures are not checked.
    #[default]
    Off,
    /// They are stored and run, with a warning.
    Warn,
    /// They are refused, at upload and at every run.
    Require,
}

/// A share of the workers; 1 by default.
#[derive(Serialize, Deserialize, ToSchema, Clone, Copy)]
#[serde(transparent)]
struct Weight(u32);

impl Default for Weight {
    fn default() -> Weight {
        Weight(TenantPolicy::default().weight)
    }
}

/// Whether a published version may be replaced with different content.
#[derive(Serialize, Deserialize, ToSchema, Default, Clone, Copy)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Versions {
    #[default]
    Mutable,
    Immutable,
}

/// How an upload with scanner errors is treated.
#[derive(Serialize, Deserialize, ToSchema, Default, Clone, Copy)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Scan {
    /// Uploads are not scanned.
    Off,
    /// The findings are in the response.
    #[default]
    Report,
    /// It is stored, and can run once an administrator has approved it.
    Review,
    /// It is refused with 422 `scan_refused`.
    Block,
}

/// A tenant to create.
#[derive(Deserialize, ToSchema)]
pub(crate) struct NewTenant {
    /// A letter or digit, then up to 63 letters, digits, `.`, `_` or `-`.
    #[schema(example = "acme")]
    id: String,
    #[schema(value_type = Option<Policy>)]
    policy: Option<JsonObject<Policy>>,
}

/// A change of a tenant.
#[derive(Deserialize, ToSchema)]
pub(crate) struct TenantChange {
    #[schema(value_type = Policy)]
    policy: JsonObject<Policy>,
}

/// Create a tenant
#[utoipa::path(
    post, path = "/v1/tenants", tag = "administration", operation_id = "create_tenant", request_body = NewTenant,
    responses(
        (status = 201, body = TenantView),
        (status = 409, description = "`conflict`: the tenant exists", body = crate::error::ErrorBody),
    )
)]
pub(crate) async fn create(
    caller: Allowed<Operate>,
    State(app): State<SharedApp>,
    body: Json<NewTenant>,
) -> Result<Response, ApiError> {
    let id = TenantId::try_from(body.value.id.as_str()).map_err(|_| {
        ApiError::bad_request(
            "id must be a letter or digit, then up to 63 letters, digits, `.`, `_` or `-`.",
        )
    })?;
    let policy =
        body.value.policy.map(|JsonObject(policy)| policy).unwrap_or_default().checked()?;
    let tenant = app.store.with_actor(actor(&caller)).create_tenant(&id, policy).await?;
    Ok((StatusCode::CREATED, axum::Json(TenantView::from(tenant))).into_response())
}

/// List tenants
#[utoipa::path(
    get, path = "/v1/tenants", tag = "administration", operation_id = "list_tenants", params(PageQuery),
    responses((status = 200, body = Vec<TenantView>, headers(("Link" = String, description = "The next page"))))
)]
pub(crate) async fn list(
    caller: Allowed<Operate>,
    State(app): State<SharedApp>,
    paging: Paging,
) -> Result<Response, ApiError> {
    let rows = app.store.list_tenants(&paging.page(&caller.tenant)?).await?;
    Ok(paging.respond(&caller.tenant, rows, Tenant::cursor, |row| Some(TenantView::from(row))))
}

/// Read a tenant
#[utoipa::path(
    get, path = "/v1/tenants/{id}", tag = "administration", operation_id = "get_tenant", params(("id" = String, Path)),
    responses((status = 200, body = TenantView))
)]
pub(crate) async fn get(
    _: Allowed<Operate>,
    State(app): State<SharedApp>,
    Path(id): Path<String>,
) -> Result<axum::Json<TenantView>, ApiError> {
    Ok(axum::Json(find(&app, &id).await?.into()))
}

/// Change a tenant's policy
///
/// Replaces the whole policy; absent fields get their defaults.
#[utoipa::path(
    put, path = "/v1/tenants/{id}", tag = "administration", operation_id = "update_tenant", params(("id" = String, Path)),
    request_body = TenantChange, responses((status = 200, body = TenantView))
)]
pub(crate) async fn update(
    caller: Allowed<Operate>,
    State(app): State<SharedApp>,
    Path(id): Path<String>,
    body: Json<TenantChange>,
) -> Result<axum::Json<TenantView>, ApiError> {
    let mut tenant = find(&app, &id).await?;
    let JsonObject(policy) = body.value.policy;
    tenant.policy = policy.checked()?;
    if !app
        .store
        .with_actor(actor(&caller))
        .update_tenant_policy(&tenant.id, &tenant.policy)
        .await?
    {
        return Err(tenant_not_found(&id));
    }
    Ok(axum::Json(tenant.into()))
}

/// Delete an empty tenant
#[utoipa::path(
    delete, path = "/v1/tenants/{id}", tag = "administration", operation_id = "delete_tenant", params(("id" = String, Path)),
    responses(
        (status = 204, description = "Deleted"),
        (status = 409, description = "`conflict`: the tenant still has skills, executions, files or active keys", body = crate::error::ErrorBody),
    )
)]
pub(crate) async fn delete(
    caller: Allowed<Operate>,
    State(app): State<SharedApp>,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    let tenant = find(&app, &id).await?;
    if !app.store.with_actor(actor(&caller)).delete_tenant(&tenant.id).await? {
        return Err(tenant_not_found(&id));
    }
    app.keyring.invalidate();
    if let Some(tokens) = &app.tokens {
        tokens.invalidate_tenant(&tenant.id).await;
    }
    Ok(StatusCode::NO_CONTENT)
}

async fn find(app: &App, id: &str) -> Result<Tenant, ApiError> {
    let tenant_id = TenantId::try_from(id).map_err(|_| tenant_not_found(id))?;
    app.store.get_tenant(&tenant_id).await?.ok_or_else(|| tenant_not_found(id))
}

fn tenant_not_found(id: &str) -> ApiError {
    ApiError::not_found("Tenant", id)
}

impl Policy {
    fn checked(self) -> Result<TenantPolicy, ApiError> {
        let limits = [
            ("max_concurrent", self.max_concurrent),
            ("max_queued", self.max_queued),
            ("rate_per_minute", self.rate_per_minute),
        ];
        if let Some((name, _)) = limits.iter().find(|(_, limit)| *limit == Some(0)) {
            return Err(ApiError::bad_request(format!("policy.{name} must be at least 1.")));
        }
        if !(1..=TenantPolicy::MAX_WEIGHT).contains(&self.weight.0) {
            return Err(ApiError::bad_request(format!(
                "policy.weight must be 1 to {}.",
                TenantPolicy::MAX_WEIGHT
            )));
        }
        let versions = match self.versions {
            Versions::Mutable => VersionPolicy::Mutable,
            Versions::Immutable => VersionPolicy::Immutable,
        };
        let scan = match self.scan {
            Scan::Off => ScanPolicy::Off,
            Scan::Report => ScanPolicy::Report,
            Scan::Review => ScanPolicy::Review,
            Scan::Block => ScanPolicy::Block,
        };
        Ok(TenantPolicy {
            versions,
            scan,
            max_concurrent: self.max_concurrent,
            max_queued: self.max_queued,
            rate_per_minute: self.rate_per_minute,
            max_file_bytes: self.max_file_bytes,
            max_stored_bytes: self.max_stored_bytes,
            weight: self.weight.0,
            signatures: match self.signatures {
                Signatures::Off => SignaturePolicy::Off,
                Signatures::Warn => SignaturePolicy::Warn,
                Signatures::Require => SignaturePolicy::Require,
            },
        })
    }
}

impl From<Tenant> for TenantView {
    fn from(tenant: Tenant) -> TenantView {
        let versions = match tenant.policy.versions {
            VersionPolicy::Mutable => Versions::Mutable,
            VersionPolicy::Immutable => Versions::Immutable,
        };
        let scan = match tenant.policy.scan {
            ScanPolicy::Off => Scan::Off,
            ScanPolicy::Report => Scan::Report,
            ScanPolicy::Review => Scan::Review,
            ScanPolicy::Block => Scan::Block,
        };
        TenantView {
            id: tenant.id.to_string(),
            policy: Policy {
                versions,
                scan,
                max_concurrent: tenant.policy.max_concurrent,
                max_queued: tenant.policy.max_queued,
                rate_per_minute: tenant.policy.rate_per_minute,
                max_file_bytes: tenant.policy.max_file_bytes,
                max_stored_bytes: tenant.policy.max_stored_bytes,
                weight: Weight(tenant.policy.weight),
                signatures: match tenant.policy.signatures {
                    SignaturePolicy::Off => Signatures::Off,
                    SignaturePolicy::Warn => Signatures::Warn,
                    SignaturePolicy::Require => Signatures::Require,
                },
            },
            created_at: rfc3339(tenant.created_at),
        }
    }
}
