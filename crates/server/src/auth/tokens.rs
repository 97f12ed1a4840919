//! Tokens (JWT) of an identity provider, as an alternative to keys.
//!
//! The content of a token never decides how it is verified: the configured key has one algorithm, and
//! headers that contain keys or URLs of keys are ignored. The reason for a refusal goes to the log;
//! the client gets the same response as for a wrong key.

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

/// Tokens of real providers have one or two KiB.
const MAX_TOKEN_LENGTH: usize = 16 << 10;
const MAX_SUBJECT_LENGTH: usize = 256;
/// How long the removal of a tenant by another process may have no effect here, as for keys.
const TENANT_CACHE_TTL: Duration = Duration::from_secs(3);
const MAX_CACHED_TENANTS: u64 = 10_000;

/// Why the configured verification of tokens cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenConfigError {
    #[error("SKILLBOX_JWT_PUBLIC_KEY: cannot read {path}: {source}")]
    Unreadable { path: String, source: std::io::Error },
    #[error("SKILLBOX_JWT_PUBLIC_KEY: {0} contains a private key. Configure only the public key.")]
    Private(String),
    #[error("SKILLBOX_JWT_PUBLIC_KEY: {0} is not a PEM file with one RSA or P-256 public key.")]
    NotAKey(String),
    #[error("SKILLBOX_JWT_JWKS_URL: {0}")]
    Client(#[source] reqwest::Error),
}

/// A key and its one algorithm.
#[derive(Clone)]
pub(super) struct VerifyingKey {
    pub algorithm: Algorithm,
    pub key: DecodingKey,
}

enum KeySource {
    Fixed(VerifyingKey),
    Set(KeySet),
}

/// Verifies tokens.
pub(crate) struct TokenVerifier {
    source: KeySource,
    settings: JwtSettings,
    /// Tenants that existed within the last seconds.
    tenants: Cache<TenantId, ()>,
}

/// The result of verifying a token.
pub(crate) enum TokenCheck {
    Valid(TokenIdentity),
    /// It is forged, expired, or meant for another audience.
    Invalid,
    /// It is authentic, but its claims cannot be used here.
    Unusable(String),
}

impl TokenVerifier {
    pub(crate) fn new(settings: JwtSettings) -> Result<TokenVerifier, TokenConfigError> {
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

    /// Whether a credential has the form of a token: three parts, the first of which is a JSON
    /// object.
    pub(crate) fn looks_like_token(text: &str) -> bool {
        let parts: Vec<&str> = text.split('.').collect();
        let [head, _, _] = parts[..] else { return false };
        // Only the first characters are decoded, so that the cost does not depend on the length.
        let start = &head.as_bytes()[..head.len().min(4)];
        BASE64URL_NOPAD.decode(start).is_ok_and(|bytes| bytes.trim_ascii_start().starts_with(b"{"))
    }

    /// Verifies a token and looks up its tenant; a token never creates a tenant.
    pub(crate) async fn authenticate(
        &self,
        store: &Store,
        text: &str,
    ) -> Result<TokenCheck, ApiError> {
        let Some(claims) = self.verify(text).await else { return Ok(TokenCheck::Invalid) };
        let token = match self.read(&claims) {
            Ok(token) => token,
            Err(reason) => return Ok(TokenCheck::Unusable(reason)),
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

    /// Makes the removal of a tenant take effect in this process at once.
    pub(crate) async fn invalidate_tenant(&self, tenant: &TenantId) {
        self.tenants.invalidate(tenant).await;
    }

    /// The claims of a token that is authentic, currently valid, and meant for this audience.
    async fn verify(&self, text: &str) -> Option<Map<String, Value>> {
        if text.len() > MAX_TOKEN_LENGTH {
            return None;
        }
        let head = jsonwebtoken::decode_header(text).ok()?;
        // RFC 7515 requires that a critical header is understood or the token refused. We support
        // none of them, no encryption and no compression.
        if head.crit.is_some() || head.enc.is_some() || head.zip.is_some() {
            tracing::debug!("a token was refused: it requires an unsupported extension");
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
            // The library accepts a list of issuers in the claim; we accept exactly one string.
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

    /// Reads our claims, or returns the reason why they cannot be used.
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
            // The conversion saturates, so an expiry beyond the range becomes the largest time.
            expires_at: (expires_at * 1e6) as i64,
        })
    }
}

/// Scopes as one string separated by spaces, or as a list. Scopes of other services are ignored.
fn scopes(claim: Option<&Value>) -> Vec<Scope> {
    let names: Vec<&str> = match claim {
        Some(Value::String(text)) => text.split_ascii_whitespace().collect(),
        Some(Value::Array(items)) => items.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    names.into_iter().filter_map(|name| name.parse().ok()).collect()
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

impl TokenCheck {
    /// The bearer of an authentic token may see why it cannot be used; for any other token the
    /// response is `refused`, which reveals nothing.
    pub(crate) fn into_token(
        self,
        refused: impl FnOnce() -> ApiError,
    ) -> Result<Arc<TokenIdentity>, ApiError> {
        match self {
            TokenCheck::Valid(token) => Ok(Arc::new(token)),
            TokenCheck::Invalid => Err(refused()),
            TokenCheck::Unusable(reason) => Err(ApiError::forbidden(reason)),
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
    fn keys_do_not_have_the_form_of_tokens() {
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
