//! The authenticated identity of a caller: one of our keys, or the subject of a token.

use std::sync::Arc;

use store::{ApiKey, Micros, Scope, TenantId};
use uuid::Uuid;

/// An authenticated identity.
#[derive(Clone)]
pub(crate) enum Identity {
    Key(Arc<ApiKey>),
    Token(Arc<TokenIdentity>),
}

/// The claims of a valid token. It never has the service flag and is never restricted to skills.
pub(crate) struct TokenIdentity {
    pub tenant: TenantId,
    pub subject: String,
    pub scopes: Vec<Scope>,
    pub expires_at: Micros,
}

impl Identity {
    pub(crate) fn tenant(&self) -> &TenantId {
        match self {
            Identity::Key(key) => &key.tenant,
            Identity::Token(token) => &token.tenant,
        }
    }

    pub(crate) fn has(&self, scope: Scope) -> bool {
        let scopes = match self {
            Identity::Key(key) => &key.scopes,
            Identity::Token(token) => &token.scopes,
        };
        scopes.contains(&scope)
    }

    /// Whether it administers the installation and may act in any tenant.
    pub(crate) fn is_service(&self) -> bool {
        matches!(self, Identity::Key(key) if key.service)
    }

    /// The skills that it is restricted to; `None` allows all.
    pub(crate) fn skills(&self) -> Option<&Vec<String>> {
        match self {
            Identity::Key(key) => key.skills.as_ref(),
            Identity::Token(_) => None,
        }
    }

    pub(crate) fn expires_at(&self) -> Option<Micros> {
        match self {
            Identity::Key(key) => key.expires_at,
            Identity::Token(token) => Some(token.expires_at),
        }
    }

    pub(crate) fn key_id(&self) -> Option<Uuid> {
        match self {
            Identity::Key(key) => Some(key.id),
            Identity::Token(_) => None,
        }
    }

    /// The subject of a token.
    pub(crate) fn subject(&self) -> Option<&str> {
        match self {
            Identity::Key(_) => None,
            Identity::Token(token) => Some(&token.subject),
        }
    }
}
