//! `/v1/keys`: the API keys of a tenant.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use store::{ApiKey, Micros, Scope};
use utoipa::ToSchema;

use crate::app::SharedApp;
use crate::audit::actor;
use crate::auth::{self, Admin, Allowed, Caller};
use crate::error::ApiError;
use crate::http::body::Json;
use crate::http::extract::{self, Path};
use crate::http::paging::{PageQuery, Paging};
use crate::http::timestamp;

const MAX_NAME: usize = 128;
const MAX_SKILLS: usize = 1000;

/// A key, without its secret.
#[derive(Serialize, ToSchema)]
pub(crate) struct KeyView {
    #[schema(format = "uuid")]
    id: String,
    tenant_id: String,
    name: String,
    /// The key's first characters, to identify it.
    prefix: String,
    #[schema(value_type = Vec<KeyScope>)]
    scopes: Vec<Scope>,
    /// Whether the key may act for other tenants.
    service: bool,
    /// The only skills that it may use; all when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    skills: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = "date-time")]
    expires_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = "date-time")]
    revoked_at: Option<String>,
    #[schema(format = "date-time")]
    created_at: String,
}

/// A new key with its secret.
#[derive(Serialize, ToSchema)]
pub(crate) struct CreatedKey {
    #[serde(flatten)]
    view: KeyView,
    /// The key itself. It is returned only in this response.
    #[schema(example = "sk-…")]
    key: String,
}

/// What a key allows.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
#[expect(dead_code, reason = "only its schema is used; the store's own type is what is read")]
pub(crate) enum KeyScope {
    Execute,
    Read,
    Publish,
    Admin,
}

/// A key to create. It never has more permissions than the key that creates it, except that `admin`
/// may grant any scope.
#[derive(Deserialize, ToSchema)]
pub(crate) struct NewKey {
    #[schema(example = "ci")]
    name: String,
    /// `execute` and `read` by default.
    #[schema(value_type = Option<Vec<KeyScope>>)]
    scopes: Option<Vec<Scope>>,
    /// Only a service key can create another.
    service: Option<bool>,
    /// The only skills the key may use.
    skills: Option<Vec<String>>,
    #[schema(format = "date-time")]
    expires_at: Option<String>,
    /// Imports this key string instead of generating one. Requires a service key.
    key: Option<String>,
}

/// Create a key
#[utoipa::path(
    post, path = "/v1/keys", tag = "administration", operation_id = "create_key", request_body = NewKey,
    responses(
        (status = 201, body = CreatedKey),
        (status = 409, description = "`conflict`: the imported key exists", body = crate::error::ErrorBody),
    )
)]
pub(crate) async fn create(
    caller: Allowed<Admin>,
    State(app): State<SharedApp>,
    body: Json<NewKey>,
) -> Result<Response, ApiError> {
    let new = body.value;
    let secret = new.secret(&caller)?;
    let new = new.checked(&caller, &secret, app.keyring.hash(&secret))?;
    let key = app.store.with_actor(actor(&caller)).insert_key(&new).await?;
    app.keyring.remember(&secret).await;
    let body = CreatedKey { view: key.into(), key: secret };
    Ok((StatusCode::CREATED, axum::Json(body)).into_response())
}

impl NewKey {
    fn secret(&self, caller: &Caller) -> Result<String, ApiError> {
        let Some(given) = &self.key else {
            return Ok(auth::new_key());
        };
        if !caller.identity.is_service() {
            return Err(ApiError::forbidden("Only a service key can import a key."));
        }
        auth::check_key_string(given)
            .map_err(|error| ApiError::bad_request(format!("key {error}.")))?;
        Ok(given.clone())
    }

    fn checked(
        self,
        caller: &Caller,
        secret: &str,
        hash: String,
    ) -> Result<store::NewApiKey, ApiError> {
        if self.name.is_empty()
            || self.name.chars().count() > MAX_NAME
            || self.name.contains(char::is_control)
        {
            return Err(ApiError::bad_request(format!("name must be 1 to {MAX_NAME} characters.")));
        }
        let mut scopes = self.scopes.unwrap_or_else(|| vec![Scope::Execute, Scope::Read]);
        if scopes.is_empty() {
            return Err(ApiError::bad_request("scopes must name at least one scope."));
        }
        scopes.sort();
        scopes.dedup();
        let service = self.service.unwrap_or(false);
        if service && !caller.identity.is_service() {
            return Err(ApiError::forbidden("Only a service key can create another."));
        }
        Ok(store::NewApiKey {
            tenant: caller.tenant.clone(),
            name: self.name,
            prefix: auth::display_prefix(secret),
            hash,
            scopes,
            service,
            skills: skills(self.skills, caller)?,
            expires_at: expiry(self.expires_at, caller)?,
        })
    }
}

/// A restricted key can only grant the skills that it may use itself.
fn skills(wanted: Option<Vec<String>>, caller: &Caller) -> Result<Option<Vec<String>>, ApiError> {
    let Some(wanted) = wanted else {
        return Ok(caller.identity.skills().cloned());
    };
    if wanted.is_empty() || wanted.len() > MAX_SKILLS {
        return Err(ApiError::bad_request(format!(
            "skills must name 1 to {MAX_SKILLS} skills, or be left out."
        )));
    }
    match wanted.iter().all(|name| caller.may_use(name)) {
        true => Ok(Some(wanted)),
        false => Err(ApiError::forbidden("skills names a skill that this key may not use itself.")),
    }
}

/// A key never outlives the key or token that created it.
fn expiry(wanted: Option<String>, caller: &Caller) -> Result<Option<Micros>, ApiError> {
    let wanted = wanted.map(|text| {
        let at = timestamp::parse(&text).filter(|at| *at > store::now());
        at.ok_or_else(|| {
            ApiError::bad_request("expires_at must be an RFC 3339 time in the future.")
        })
    });
    let wanted = wanted.transpose()?;
    match (wanted, caller.identity.expires_at()) {
        (Some(wanted), Some(own)) => Ok(Some(wanted.min(own))),
        (wanted, own) => Ok(wanted.or(own)),
    }
}

/// List keys
///
/// Service keys are listed only for a service key, and a restricted key lists only keys within its
/// own restrictions (skills and expiry). A page may therefore hold fewer rows than `limit`.
#[utoipa::path(
    get, path = "/v1/keys", tag = "administration", operation_id = "list_keys", params(PageQuery),
    responses((status = 200, body = Vec<KeyView>, headers(("Link" = String, description = "The next page"))))
)]
pub(crate) async fn list(
    caller: Allowed<Admin>,
    State(app): State<SharedApp>,
    paging: Paging,
) -> Result<Response, ApiError> {
    let page = paging.page(&caller.tenant)?;
    let rows = app.store.list_keys(&caller.tenant, caller.identity.is_service(), &page).await?;
    let managed = |row: ApiKey| caller.identity.may_manage(&row).then(|| KeyView::from(row));
    Ok(paging.respond(&caller.tenant, rows, ApiKey::cursor, managed))
}

/// Revoke a key
///
/// It stops working at once. Its row remains, for the audit log. A key that the caller may not list
/// is reported as missing.
#[utoipa::path(
    delete, path = "/v1/keys/{id}", tag = "administration", operation_id = "revoke_key",
    params(("id" = String, Path, format = "uuid")),
    responses((status = 204, description = "Revoked"))
)]
pub(crate) async fn revoke(
    caller: Allowed<Admin>,
    State(app): State<SharedApp>,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    let id = extract::parse_id("Key", &id)?;
    // No race with the revocation: the permissions of a key never change.
    let key = app.store.get_key(&caller.tenant, id).await?;
    let managed = key.is_some_and(|key| caller.identity.may_manage(&key));
    if !managed || !app.store.with_actor(actor(&caller)).revoke_key(&caller.tenant, id).await? {
        return Err(ApiError::not_found("Key", &id.to_string()));
    }
    app.keyring.invalidate();
    Ok(StatusCode::NO_CONTENT)
}

impl From<ApiKey> for KeyView {
    fn from(key: ApiKey) -> KeyView {
        KeyView {
            id: key.id.to_string(),
            tenant_id: key.tenant.to_string(),
            name: key.name,
            prefix: key.prefix,
            scopes: key.scopes,
            service: key.service,
            skills: key.skills,
            expires_at: key.expires_at.map(timestamp::rfc3339),
            revoked_at: key.revoked_at.map(timestamp::rfc3339),
            created_at: timestamp::rfc3339(key.created_at),
        }
    }
}
