//! The keys of an identity provider, fetched from its URL and cached.
//!
//! An unknown key id causes a new fetch, so that the provider can rotate its keys at any time; but
//! at most one fetch in some seconds, because any client can send an unknown key id. While the URL
//! does not respond, the cached keys stay in use for a limited time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jsonwebtoken::jwk::{
    AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, KeyOperations, PublicKeyUse,
};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde_json::Value;

use super::tokens::VerifyingKey;
use crate::error::error_chain;

/// No real provider has that many keys or that large a set.
const MAX_KEYS: usize = 100;
const MAX_KEY_SET_BYTES: usize = 256 << 10;
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);

/// When the key set is fetched again.
#[derive(Clone, Copy)]
pub(super) struct RefreshPolicy {
    /// Keys younger than this are used without a request to the provider.
    pub fresh_for: Duration,
    /// Keys older than this are no longer used, when the provider has not confirmed them since.
    pub usable_for: Duration,
    /// The minimum time between two fetches.
    pub min_interval: Duration,
}

const DEFAULT_REFRESH_POLICY: RefreshPolicy = RefreshPolicy {
    fresh_for: Duration::from_secs(600),
    usable_for: Duration::from_secs(24 * 3600),
    min_interval: Duration::from_secs(10),
};

type KeysById = HashMap<String, Arc<VerifyingKey>>;

/// The keys of a provider by their `kid`.
pub(super) struct KeySet {
    url: String,
    http: reqwest::Client,
    policy: RefreshPolicy,
    known: Mutex<CachedKeys>,
    /// Locked during a fetch, so that parallel requests cause only one.
    fetching: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct CachedKeys {
    keys: Arc<KeysById>,
    fetched_at: Option<Instant>,
    tried_at: Option<Instant>,
}

#[derive(Debug, thiserror::Error)]
enum FetchError {
    #[error("the request failed")]
    Http(#[from] reqwest::Error),
    #[error("the response has more than {MAX_KEY_SET_BYTES} bytes")]
    TooLarge,
    #[error("the response is not a key set")]
    InvalidSet,
}

impl KeySet {
    pub(super) fn new(url: &str) -> Result<KeySet, reqwest::Error> {
        KeySet::with(url, DEFAULT_REFRESH_POLICY)
    }

    pub(super) fn with(url: &str, policy: RefreshPolicy) -> Result<KeySet, reqwest::Error> {
        let http = reqwest::Client::builder()
            .timeout(FETCH_TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .build()?;
        let (known, fetching) = (Mutex::default(), tokio::sync::Mutex::default());
        Ok(KeySet { url: url.to_owned(), http, policy, known, fetching })
    }

    /// The key that a token names. A token that names none is verified with the only key of the set,
    /// if there is only one.
    pub(super) async fn find(&self, kid: Option<&str>) -> Option<Arc<VerifyingKey>> {
        let (found, age) = self.find_cached(kid);
        let expected = match (&found, age) {
            (Some(_), Some(age)) if age < self.policy.fresh_for => return found,
            // Another request is fetching already: this one uses the cached key and does not wait.
            (Some(_), _) => match self.fetching.try_lock() {
                Ok(held) => held,
                Err(_) => return self.find_usable(kid),
            },
            (None, _) => self.fetching.lock().await,
        };
        self.refresh(expected).await;
        self.find_usable(kid)
    }

    fn find_cached(&self, kid: Option<&str>) -> (Option<Arc<VerifyingKey>>, Option<Duration>) {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let found = match kid {
            Some(kid) => known.keys.get(kid).cloned(),
            None if known.keys.len() == 1 => known.keys.values().next().cloned(),
            None => None,
        };
        (found, known.fetched_at.map(|at| at.elapsed()))
    }

    fn find_usable(&self, kid: Option<&str>) -> Option<Arc<VerifyingKey>> {
        let (found, age) = self.find_cached(kid);
        found.filter(|_| age.is_some_and(|age| age < self.policy.usable_for))
    }

    /// Fetches the set, unless that was tried within `min_interval`.
    async fn refresh(&self, _held: tokio::sync::MutexGuard<'_, ()>) {
        {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            if known.tried_at.is_some_and(|at| at.elapsed() < self.policy.min_interval) {
                return;
            }
            known.tried_at = Some(Instant::now());
        }
        match self.fetch().await {
            Ok(keys) => {
                // An empty set replaces the cached keys too: that is how a provider withdraws its last
                // key. Only a failed fetch keeps old keys in use.
                if keys.is_empty() {
                    tracing::warn!(
                        "no key in the set for tokens (SKILLBOX_JWT_JWKS_URL) can be used: RSA and P-256 keys for \
                         signatures can"
                    );
                }
                let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
                known.keys = Arc::new(keys);
                known.fetched_at = Some(Instant::now());
            }
            Err(error) => tracing::warn!(
                error = error_chain(&error),
                "the keys for tokens (SKILLBOX_JWT_JWKS_URL) could not be fetched"
            ),
        }
    }

    async fn fetch(&self) -> Result<KeysById, FetchError> {
        let mut response = self.http.get(&self.url).send().await?.error_for_status()?;
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await? {
            if body.len() + chunk.len() > MAX_KEY_SET_BYTES {
                return Err(FetchError::TooLarge);
            }
            body.extend_from_slice(&chunk);
        }
        let set: Value = serde_json::from_slice(&body).map_err(|_| FetchError::InvalidSet)?;
        let listed = set.get("keys").and_then(Value::as_array).ok_or(FetchError::InvalidSet)?;
        Ok(usable_keys(listed))
    }
}

/// The keys of a set that can verify signatures; the others have another purpose.
fn usable_keys(listed: &[Value]) -> KeysById {
    let mut keys = KeysById::new();
    for value in listed.iter().take(MAX_KEYS) {
        let Ok(jwk) = serde_json::from_value::<Jwk>(value.clone()) else { continue };
        let kid = jwk.common.key_id.clone().unwrap_or_default();
        if let Some(key) = verifying_key(&jwk) {
            keys.entry(kid).or_insert_with(|| Arc::new(key));
        }
    }
    keys
}

/// The algorithm follows from the type of the key, never from a token: otherwise a token could have
/// a public key used as an HMAC secret. For the same reason symmetric keys are skipped.
fn verifying_key(jwk: &Jwk) -> Option<VerifyingKey> {
    let algorithm = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => Algorithm::RS256,
        AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P256 => {
            Algorithm::ES256
        }
        _ => return None,
    };
    let named = match jwk.common.key_algorithm {
        None => true,
        Some(KeyAlgorithm::RS256) => algorithm == Algorithm::RS256,
        Some(KeyAlgorithm::ES256) => algorithm == Algorithm::ES256,
        Some(_) => false,
    };
    let signs =
        jwk.common.public_key_use.as_ref().is_none_or(|usage| *usage == PublicKeyUse::Signature);
    let verifies =
        jwk.common.key_operations.as_ref().is_none_or(|uses| uses.contains(&KeyOperations::Verify));
    let key = DecodingKey::from_jwk(jwk).ok()?;
    (named && signs && verifies).then_some(VerifyingKey { algorithm, key })
}

#[cfg(test)]
#[path = "jwks_tests.rs"]
mod tests;
