//! Authentication and permissions.
//!
//! A permission is a type: a handler that takes [`Allowed<Publish>`] cannot run without a valid key
//! or token that has the scope. The tenant is that of the key or token; only a service key may name
//! another one in `X-Tenant-ID`.

mod allowed;
mod authority;
mod failures;
mod identity;
mod jwks;
mod keyring;
pub(crate) mod token_bucket;
mod tokens;
mod watcher;

pub(crate) use allowed::{Admin, Allowed, Execute, Operate, Publish, Read};
pub(crate) use failures::AuthFailures;
pub(crate) use identity::Identity;
pub(crate) use keyring::{Keyring, check_key_string, display_prefix, new_key};
pub(crate) use tokens::{TokenConfigError, TokenVerifier};
pub(crate) use watcher::MetricsReader;

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
pub(crate) struct Caller {
    /// The tenant of the request: the identity's own, or the one that a service key names.
    pub tenant: TenantId,
    pub identity: Identity,
    pub request_id: Option<String>,
}

impl Caller {
    /// Whether the key's restrictions allow this skill.
    pub(crate) fn may_use(&self, skill: &str) -> bool {
        self.identity.skills().is_none_or(|skills| skills.iter().any(|name| name == skill))
    }

    /// The caller in the runner's terms.
    pub(crate) fn to_runner_caller(&self) -> runner::Caller {
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
        // A request without a credential is no guess, so it does not count as a failure.
        let credential = bearer(parts).ok_or_else(unauthorized)?;
        let identity = identify(app, app.trusted_proxies.client(parts), credential).await?;
        let tenant = tenant(parts, app, &identity).await?;
        // Body readers reserve memory for this tenant, and only the parts are passed on to them.
        parts.extensions.insert(tenant.clone());
        let request_id = parts.extensions.get::<RequestId>().map(|id| id.0.clone());
        Ok(Caller { tenant, identity, request_id })
    }
}

/// A credential is a token when it has the form of one and tokens are configured; otherwise it is a
/// key.
async fn identify(app: &SharedApp, client: Peer, credential: &str) -> Result<Identity, ApiError> {
    let failed = || {
        app.metrics.auth_failures.fetch_add(1, Ordering::Relaxed);
        app.auth_failures.count(client, unauthorized())
    };
    match &app.tokens {
        // The failure limit is not checked for tokens: a signature cannot be guessed, and verifying
        // one needs no database. So a valid token works even from a locked-out address.
        Some(tokens) if TokenVerifier::looks_like_token(credential) => {
            let checked = tokens.authenticate(&app.store, credential).await?;
            checked.into_token(failed).map(Identity::Token)
        }
        _ => {
            // Checked before the lookup, so that guesses neither continue nor load the database.
            // Keys that were valid before skip it: others at the same address cannot lock them out.
            if !app.keyring.was_valid(credential) {
                app.auth_failures.check(client)?;
            }
            let key = app.keyring.authenticate(&app.store, credential).await?;
            key.map(Identity::Key).ok_or_else(failed)
        }
    }
}

/// The same response to every failed authentication: it does not reveal which part was wrong.
fn unauthorized() -> ApiError {
    ApiError::new(Slug::Unauthorized, "Send a valid API key as `Authorization: Bearer <key>`.")
}

fn bearer(parts: &Parts) -> Option<&str> {
    let mut values = parts.headers.get_all(header::AUTHORIZATION).iter();
    let value = values.next()?.to_str().ok()?;
    // With two credentials, a proxy and this server could take the request for different callers.
    if values.next().is_some() {
        return None;
    }
    let (scheme, token) = value.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

async fn tenant(parts: &Parts, app: &SharedApp, identity: &Identity) -> Result<TenantId, ApiError> {
    let values: Vec<_> = parts.headers.get_all("x-tenant-id").iter().collect();
    let text = match values.as_slice() {
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
