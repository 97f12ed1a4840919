//! Who calls, and what they may do.
//!
//! A permission is a type: a handler that takes [`Allowed<Publish>`] cannot run without a valid key
//! or token that has the scope. The tenant comes from the key or token; only a service key may name
//! another one in `X-Tenant-ID`.

mod allowed;
mod authority;
mod failures;
mod identity;
mod jwks;
mod keyring;
pub mod token_bucket;
mod tokens;
mod watcher;

pub use allowed::{Admin, Allowed, Execute, Operate, Publish, Read};
pub use failures::AuthFailures;
pub use identity::Identity;
pub use keyring::{Keyring, check_key_string, display_prefix, new_key};
pub use tokens::{TokenConfigError, TokenVerifier};
pub use watcher::MetricsReader;

use std::sync::atomic::Ordering;

use axum::extract::FromRequestParts;
use http::header;
use http::request::Parts;
use store::TenantId;

use crate::app::SharedApp;
use crate::error::{ApiError, Slug};
use crate::http::peer::Peer;
use crate::http::request_id::RequestId;

/// An authenticated caller.
#[derive(Clone)]
pub struct Caller {
    /// The tenant acted in: the identity's own, or the one a service key named.
    pub tenant: TenantId,
    pub identity: Identity,
    pub request_id: Option<String>,
}

impl Caller {
    /// Whether the key's own limits leave this skill visible.
    pub fn may_use(&self, skill: &str) -> bool {
        self.identity.skills().is_none_or(|skills| skills.iter().any(|name| name == skill))
    }

    /// The caller as the runner knows one.
    pub fn for_runner(&self) -> runner::Caller {
        runner::Caller {
            tenant: self.tenant.clone(),
            key_id: self.identity.key_id(),
            skills: self.identity.skills().cloned(),
        }
    }
}

impl FromRequestParts<SharedApp> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &SharedApp) -> Result<Self, ApiError> {
        // Who sends no credential guesses nothing, and is not counted.
        let credential = bearer(parts).ok_or_else(unauthorized)?;
        let identity = identify(app, app.trusted_proxies.client(parts), credential).await?;
        let tenant = tenant(parts, app, &identity).await?;
        // Whoever reads the body reserves memory in this tenant's name.
        parts.extensions.insert(tenant.clone());
        let request_id = parts.extensions.get::<RequestId>().map(|id| id.0.clone());
        Ok(Caller { tenant, identity, request_id })
    }
}

/// A credential is a token when it looks like one and tokens are accepted here; else it can only be
/// a key.
async fn identify(app: &SharedApp, client: Peer, credential: &str) -> Result<Identity, ApiError> {
    let failed = || {
        app.metrics.auth_failures.fetch_add(1, Ordering::Relaxed);
        app.auth_failures.count(client, unauthorized())
    };
    match &app.tokens {
        // Nobody guesses a signature, and checking one costs no look at the database: valid tokens
        // always pass.
        Some(tokens) if TokenVerifier::looks_like_token(credential) => {
            let checked = tokens.authenticate(&app.store, credential).await?;
            checked.into_token(failed).map(Identity::Token)
        }
        _ => {
            if !app.keyring.was_valid(credential) {
                app.auth_failures.check(client)?;
            }
            let key = app.keyring.authenticate(&app.store, credential).await?;
            key.map(Identity::Key).ok_or_else(failed)
        }
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

async fn tenant(parts: &Parts, app: &SharedApp, identity: &Identity) -> Result<TenantId, ApiError> {
    let named: Vec<_> = parts.headers.get_all("x-tenant-id").iter().collect();
    let text = match named.as_slice() {
        [] => return Ok(identity.tenant().clone()),
        [one] => one.to_str().unwrap_or_default(),
        _ => return Err(ApiError::forbidden("X-Tenant-ID was sent more than once.")),
    };
    if text == identity.tenant().as_str() {
        return Ok(identity.tenant().clone());
    }
    if !identity.is_service() {
        return Err(ApiError::forbidden("X-Tenant-ID names another tenant than the key's own."));
    }
    let other = TenantId::try_from(text).map_err(|_| ApiError::not_found("Tenant", text))?;
    match app.store.get_tenant(&other).await? {
        Some(tenant) => Ok(tenant.id),
        None => Err(ApiError::not_found("Tenant", text)),
    }
}
