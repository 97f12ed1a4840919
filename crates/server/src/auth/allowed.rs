//! Permissions as types.

use std::marker::PhantomData;
use std::ops::Deref;

use axum::extract::FromRequestParts;
use http::request::Parts;
use store::Scope;

use super::Caller;
use crate::app::SharedApp;
use crate::error::ApiError;

/// What a handler requires of its caller.
pub(crate) trait Permission: Send + Sync + 'static {
    const SCOPE: Scope;
    /// Whether the service flag is required too: the caller administers the whole installation.
    const SERVICE: bool = false;
}

/// May run skills and stop runs.
pub(crate) struct Execute;
/// May read skills, executions and files.
pub(crate) struct Read;
/// May upload and delete skills.
pub(crate) struct Publish;
/// May administer the keys of a tenant and read its audit log.
pub(crate) struct Admin;
/// May administer tenants.
pub(crate) struct Operate;

impl Permission for Execute {
    const SCOPE: Scope = Scope::Execute;
}
impl Permission for Read {
    const SCOPE: Scope = Scope::Read;
}
impl Permission for Publish {
    const SCOPE: Scope = Scope::Publish;
}
impl Permission for Admin {
    const SCOPE: Scope = Scope::Admin;
}
impl Permission for Operate {
    const SCOPE: Scope = Scope::Admin;
    const SERVICE: bool = true;
}

/// Proof that the caller has the permission `P`. It can only be created from a request.
pub(crate) struct Allowed<P> {
    caller: Caller,
    permission: PhantomData<P>,
}

impl<P> Deref for Allowed<P> {
    type Target = Caller;

    fn deref(&self) -> &Caller {
        &self.caller
    }
}

impl<P: Permission> FromRequestParts<SharedApp> for Allowed<P> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &SharedApp) -> Result<Self, ApiError> {
        let caller = Caller::from_request_parts(parts, app).await?;
        if !caller.identity.has(P::SCOPE) {
            return Err(ApiError::forbidden(format!(
                "This key or token lacks the scope `{}`.",
                P::SCOPE
            )));
        }
        if P::SERVICE && !caller.identity.is_service() {
            return Err(ApiError::forbidden("This needs a service key."));
        }
        Ok(Allowed { caller, permission: PhantomData })
    }
}
