//! Who calls, and what they may do.
//!
//! A permission is a type: a handler that takes [`Allowed<Publish>`] cannot run without a valid key that has the scope.
//! The tenant comes from the key; only a service key may name another one in `X-Tenant-ID`.

mod allowed;
mod keyring;

pub use allowed::{Admin, Allowed, Execute, Operate, Publish, Read};
pub use keyring::{Keyring, MAX_KEY_LENGTH, display_prefix, new_key};

use std::sync::Arc;

use axum::extract::FromRequestParts;
use http::header;
use http::request::Parts;
use store::{Key, TenantId};

use crate::app::Shared;
use crate::error::{ApiError, Slug};
use crate::request_id::RequestId;

/// An authenticated caller.
#[derive(Clone)]
pub struct Caller {
    /// The tenant acted in: the key's own, or the one a service key named.
    pub tenant: TenantId,
    pub key: Arc<Key>,
    pub request_id: Option<String>,
}

impl Caller {
    /// Whether the key's own limits leave this skill visible.
    pub fn may_use(&self, skill: &str) -> bool {
        self.key.skills.as_ref().is_none_or(|skills| skills.iter().any(|name| name == skill))
    }

    /// The caller as the runner knows one.
    pub fn for_runner(&self) -> runner::Caller {
        runner::Caller { tenant: self.tenant.clone(), key_id: Some(self.key.id), skills: self.key.skills.clone() }
    }
}

impl FromRequestParts<Shared> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Shared) -> Result<Self, ApiError> {
        let token = bearer(parts).ok_or_else(unauthorized)?;
        let key = app.keyring.authenticate(&app.store, token).await?.ok_or_else(unauthorized)?;
        let tenant = tenant(parts, app, &key).await?;
        let request_id = parts.extensions.get::<RequestId>().map(|id| id.0.clone());
        Ok(Caller { tenant, key, request_id })
    }
}

/// The one answer to every failed authentication: it tells nobody which part was wrong.
fn unauthorized() -> ApiError {
    ApiError::new(Slug::Unauthorized, "Send a valid API key as `Authorization: Bearer <key>`.")
}

fn bearer(parts: &Parts) -> Option<&str> {
    let mut values = parts.headers.get_all(header::AUTHORIZATION).iter();
    let value = values.next()?.to_str().ok()?;
    // Two different credentials in one request would let proxies and us disagree about who calls.
    if values.next().is_some() {
        return None;
    }
    let (scheme, token) = value.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

async fn tenant(parts: &Parts, app: &Shared, key: &Key) -> Result<TenantId, ApiError> {
    let named: Vec<_> = parts.headers.get_all("x-tenant-id").iter().collect();
    let text = match named.as_slice() {
        [] => return Ok(key.tenant.clone()),
        [one] => one.to_str().unwrap_or_default(),
        _ => return Err(ApiError::forbidden("X-Tenant-ID was sent more than once.")),
    };
    if text == key.tenant.as_str() {
        return Ok(key.tenant.clone());
    }
    if !key.service {
        return Err(ApiError::forbidden("X-Tenant-ID names another tenant than the key's own."));
    }
    let other = TenantId::try_from(text).map_err(|_| ApiError::not_found())?;
    match app.store.get_tenant(&other).await? {
        Some(tenant) => Ok(tenant.id),
        None => Err(ApiError::not_found()),
    }
}
