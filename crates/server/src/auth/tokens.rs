//! Tokens (JWT) of an identity provider, as an alternative to keys.
//!
//! Nothing a token says decides how it is checked: the configured key has one algorithm, and
//! headers that carry or point to keys are not looked at. What is wrong with a token goes to the
//! log; its bearer hears what the bearer of a bad key hears.

use std::sync::Arc;
use std::time::Duration;

use data_encoding::BASE64URL_NOPAD;
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use moka::future::Cache;
use serde_json::{Map, Value};
use store::{Scope, Store, TenantId};

use super::identity::TokenIdentity;
use super::jwks::KeySet;
use crate::config::{JwtKey, JwtSettings};
use crate::error::ApiError;

/// Providers' tokens have one or two KiB; ten times that is not a token.
const MAX_TOKEN_LENGTH: usize = 16 << 10;
const MAX_SUBJECT_LENGTH: usize = 256;
/// How long another process's removal of a tenant may go unnoticed, as for keys.
const TENANT_CACHE_TTL: Duration = Duration::from_secs(3);
const MAX_CACHED_TENANTS: u64 = 10_000;

/// Why tokens cannot be checked as configured.
#[derive(Debug, thiserror::Error)]
pub enum TokenConfigError {
    #[error("SKILLBOX_JWT_PUBLIC_KEY: cannot read {path}: {source}")]
    Unreadable { path: String, source: std::io::Error },
    #[error("SKILLBOX_JWT_PUBLIC_KEY: {0} holds a private key. Give the public one only.")]
    Private(String),
    #[error("SKILLBOX_JWT_PUBLIC_KEY: {0} is not a PEM file with one RSA or P-256 public key.")]
    NotAKey(String),
    #[error("SKILLBOX_JWT_JWKS_URL: {0}")]
    Client(#[source] reqwest::Error),
}

/// A key, and the one algorithm it is for.
#[derive(Clone)]
pub struct VerifyingKey {
    pub algorithm: Algorithm,
    pub key: DecodingKey,
}

enum KeySource {
    Fixed(VerifyingKey),
    Set(KeySet),
}

/// Checks tokens.
pub struct TokenVerifier {
    source: KeySource,
    settings: JwtSettings,
    /// Tenants that were there a moment ago.
    tenants: Cache<TenantId, ()>,
}

/// What a token is found to be.
pub enum TokenCheck {
    Valid(TokenIdentity),
    /// It is nobody's.
    Refused,
    /// Genuine, but it says nothing that could be acted on here.
    Unusable(String),
}

impl TokenVerifier {
    pub fn new(settings: JwtSettings) -> Result<TokenVerifier, TokenConfigError> {
        let source = match &settings.key {
            JwtKey::Secret(secret) => KeySource::Fixed(VerifyingKey {
                algorithm: Algorithm::HS256,
                key: DecodingKey::from_secret(secret.as_bytes()),
            }),
            JwtKey::PublicKey(path) => {
                let path_text = path.display().to_string();
                let pem = std::fs::read(path).map_err(|source| TokenConfigError::Unreadable {
                    path: path_text.clone(),
                    source,
                })?;
                KeySource::Fixed(public_key(&pem, path_text)?)
            }
            JwtKey::Jwks(url) => {
                KeySource::Set(KeySet::new(url).map_err(TokenConfigError::Client)?)
            }
        };
        let tenants = Cache::builder()
            .max_capacity(MAX_CACHED_TENANTS)
            .time_to_live(TENANT_CACHE_TTL)
            .build();
        Ok(TokenVerifier { source, settings, tenants })
    }

    /// Whether a credential has the shape of a token: three parts, the first of them an object in
    /// JSON.
    pub fn looks_like_token(text: &str) -> bool {
        let parts: Vec<&str> = text.split('.').collect();
        let [head, _, _] = parts[..] else { return false };
        // Only the first characters: how long it is must not matter here.
        let start = &head.as_bytes()[..head.len().min(4)];
        BASE64URL_NOPAD.decode(start).is_ok_and(|bytes| bytes.trim_ascii_start().starts_with(b"{"))
    }

    /// Checks a token and looks its tenant up; tokens never make tenants.
    pub async fn authenticate(&self, store: &Store, text: &str) -> Result<TokenCheck, ApiError> {
        let Some(claims) = self.verify(text).await else { return Ok(TokenCheck::Refused) };
        let token = match self.read(&claims) {
            Ok(token) => token,
            Err(why) => return Ok(TokenCheck::Unusable(why)),
        };
        if self.tenants.get(&token.tenant).await.is_none() {
            if store.get_tenant(&token.tenant).await?.is_none() {
                return Ok(TokenCheck::Unusable(
                    "This token names a tenant that does not exist here.".into(),
                ));
            }
            self.tenants.insert(token.tenant.clone(), ()).await;
        }
        Ok(TokenCheck::Valid(token))
    }

    /// Makes a tenant's removal take effect here at once.
    pub async fn forget(&self, tenant: &TenantId) {
        self.tenants.invalidate(tenant).await;
    }

    /// The claims of a token that is genuine, in force, and meant for us.
    async fn verify(&self, text: &str) -> Option<Map<String, Value>> {
        if text.len() > MAX_TOKEN_LENGTH {
            return None;
        }
        let head = jsonwebtoken::decode_header(text).ok()?;
        // What a sender calls critical must be understood or refused, and we understand nothing of
        // the kind.
        if head.crit.is_some() || head.enc.is_some() || head.zip.is_some() {
            tracing::debug!("a token was refused: it demands what is not supported");
            return None;
        }
        let key = match &self.source {
            KeySource::Fixed(key) => key.clone(),
            KeySource::Set(keys) => keys.find(head.kid.as_deref()).await?.as_ref().clone(),
        };
        let claims = jsonwebtoken::decode::<Map<String, Value>>(
            text,
            &key.key,
            &self.validation(key.algorithm),
        );
        match claims {
            Ok(token)
                if token.claims.get("iss").and_then(Value::as_str)
                    == Some(&self.settings.issuer) =>
            {
                Some(token.claims)
            }
            Ok(_) => None,
            Err(error) => {
                tracing::debug!(%error, "a token was refused");
                None
            }
        }
    }

    fn validation(&self, algorithm: Algorithm) -> Validation {
        let mut validation = Validation::new(algorithm);
        validation.leeway = self.settings.leeway.as_secs();
        validation.validate_nbf = true;
        validation.set_issuer(&[&self.settings.issuer]);
        validation.set_audience(&[&self.settings.audience]);
        validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
        validation
    }

    /// What the claims mean to us, or why nothing.
    fn read(&self, claims: &Map<String, Value>) -> Result<TokenIdentity, String> {
        let text = |name: &str| claims.get(name).and_then(Value::as_str);
        let tenant =
            text(&self.settings.tenant_claim).and_then(|name| TenantId::try_from(name).ok());
        let tenant = tenant.ok_or_else(|| {
            format!("This token names no tenant in `{}`.", self.settings.tenant_claim)
        })?;
        let subject =
            text("sub").filter(|subject| (1..=MAX_SUBJECT_LENGTH).contains(&subject.len()));
        let subject = subject
            .ok_or_else(|| format!("`sub` must have 1 to {MAX_SUBJECT_LENGTH} characters."))?;
        let expires_at = claims.get("exp").and_then(Value::as_f64).unwrap_or_default();
        Ok(TokenIdentity {
            tenant,
            subject: subject.to_owned(),
            scopes: scopes(claims.get(&self.settings.scopes_claim)),
            // Floats convert to the nearest number there is, so an end beyond all time is the end
            // of time.
            expires_at: (expires_at * 1e6) as i64,
        })
    }
}

/// Scopes as one string with blanks, or as a list. Those of other services mean nothing here.
fn scopes(claim: Option<&Value>) -> Vec<Scope> {
    let words: Vec<&str> = match claim {
        Some(Value::String(text)) => text.split_ascii_whitespace().collect(),
        Some(Value::Array(items)) => items.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    words.into_iter().filter_map(|word| word.parse().ok()).collect()
}

fn public_key(pem: &[u8], path: String) -> Result<VerifyingKey, TokenConfigError> {
    let text = String::from_utf8_lossy(pem);
    if text.contains("PRIVATE KEY") {
        return Err(TokenConfigError::Private(path));
    }
    if let Ok(key) = DecodingKey::from_rsa_pem(pem) {
        return Ok(VerifyingKey { algorithm: Algorithm::RS256, key });
    }
    match DecodingKey::from_ec_pem(pem) {
        // An uncompressed point of P-256. Larger curves have other algorithms.
        Ok(key) if key.try_get_as_bytes().is_ok_and(|point| point.len() == 65) => {
            Ok(VerifyingKey { algorithm: Algorithm::ES256, key })
        }
        _ => Err(TokenConfigError::NotAKey(path)),
    }
}

/// What the caller of a useless token is told: it is genuine, so its bearer may know why it opens
/// nothing.
impl TokenCheck {
    pub fn into_token(
        self,
        refused: impl FnOnce() -> ApiError,
    ) -> Result<Arc<TokenIdentity>, ApiError> {
        match self {
            TokenCheck::Valid(token) => Ok(Arc::new(token)),
            TokenCheck::Refused => Err(refused()),
            TokenCheck::Unusable(why) => Err(ApiError::forbidden(why)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn scopes_are_read_from_a_string_or_a_list() {
        let read = |claim: Value| scopes(Some(&claim));
        assert_eq!(read(json!("openid read  execute")), [Scope::Read, Scope::Execute]);
        assert_eq!(read(json!(["publish", "email", 7])), [Scope::Publish]);
        for none in [
            json!(""),
            json!([]),
            json!(null),
            json!(1),
            json!({ "read": true }),
            json!("READ"),
            json!("*"),
        ] {
            assert_eq!(read(none), []);
        }
        assert_eq!(scopes(None), []);
    }

    #[test]
    fn keys_do_not_look_like_tokens() {
        let part = |text: &str| BASE64URL_NOPAD.encode(text.as_bytes());
        for token in
            [format!("{}.e30.", part(r#"{"alg":"none"}"#)), format!("{}.a.b", part("  {}"))]
        {
            assert!(TokenVerifier::looks_like_token(&token), "{token}");
        }
        for key in
            ["sk-abc", "", ".", "..", "team.service.key", "a.b.c.d", "eyJhbGciOiJub25lIn0.e30"]
        {
            assert!(!TokenVerifier::looks_like_token(key), "{key}");
        }
    }
}
