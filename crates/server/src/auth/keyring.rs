//! Key strings: generated, hashed and authenticated. The store only ever receives a keyed hash.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use data_encoding::{BASE32_NOPAD, HEXLOWER};
use moka::future::Cache;
use store::{ApiKey, Store};

use crate::error::ApiError;
use crate::secrets::mac;

/// Longer strings are not keys; refusing them early keeps hashing cheap.
const MAX_KEY_LENGTH: usize = 512;

/// The string cannot be a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be 1 to {MAX_KEY_LENGTH} printable ASCII characters without spaces")]
pub(crate) struct InvalidKeyString;

/// Whether a string can be a key at all, that is, whether a header can carry it. How strong an
/// imported key is, its operator decides: existing keys of earlier systems must keep working.
pub(crate) fn check_key_string(text: &str) -> Result<(), InvalidKeyString> {
    let printable = text.bytes().all(|byte| byte.is_ascii_graphic());
    match printable && (1..=MAX_KEY_LENGTH).contains(&text.len()) {
        true => Ok(()),
        false => Err(InvalidKeyString),
    }
}

/// How long a revocation by another process may have no effect here. One by this process takes
/// effect at once.
const KEY_CACHE_TTL: Duration = Duration::from_secs(3);
const MAX_CACHED_KEYS: u64 = 10_000;

/// Authenticates keys.
pub(crate) struct Keyring {
    hash_key: [u8; 32],
    /// Recently used keys, by generation and hash. A revocation starts a new generation after its
    /// commit. So a lookup that raced with it can only fill the old generation, which is never read
    /// again.
    recent: Cache<(u64, String), Arc<ApiKey>>,
    generation: AtomicU64,
    /// Hashes of keys that were valid at some time since the start. They grant nothing: they only
    /// distinguish keys in use from guesses.
    once_valid: Cache<String, ()>,
}

impl Keyring {
    pub(crate) fn new(hash_key: [u8; 32]) -> Keyring {
        let recent =
            Cache::builder().max_capacity(MAX_CACHED_KEYS).time_to_live(KEY_CACHE_TTL).build();
        let once_valid = Cache::builder().max_capacity(MAX_CACHED_KEYS).build();
        Keyring { hash_key, recent, generation: AtomicU64::new(0), once_valid }
    }

    /// The keyed hash of a key string, which is what the store keeps.
    pub(crate) fn hash(&self, key: &str) -> String {
        HEXLOWER.encode(&mac(&self.hash_key, &[key.as_bytes()]))
    }

    /// Whether this string was a valid key before.
    pub(crate) fn was_valid(&self, text: &str) -> bool {
        check_key_string(text).is_ok() && self.once_valid.contains_key(&self.hash(text))
    }

    /// Records a key that was just created, so that its first use does not count as a guess.
    pub(crate) async fn remember(&self, text: &str) {
        self.once_valid.insert(self.hash(text), ()).await;
    }

    /// The key that a string is, if it is valid now.
    pub(crate) async fn authenticate(
        &self,
        store: &Store,
        text: &str,
    ) -> Result<Option<Arc<ApiKey>>, ApiError> {
        if check_key_string(text).is_err() {
            return Ok(None);
        }
        let cache_key = (self.generation.load(Ordering::SeqCst), self.hash(text));
        let key = match self.recent.get(&cache_key).await {
            Some(key) => key,
            None => match store.find_key(&cache_key.1).await? {
                Some(key) => {
                    let key = Arc::new(key);
                    if is_active(&key) {
                        self.once_valid.insert(cache_key.1.clone(), ()).await;
                    }
                    self.recent.insert(cache_key, key.clone()).await;
                    key
                }
                None => return Ok(None),
            },
        };
        Ok(Some(key).filter(|key| is_active(key)))
    }

    /// Makes a committed revocation take effect in this process at once.
    pub(crate) fn invalidate(&self) {
        self.generation.fetch_add(1, Ordering::SeqCst);
    }
}

fn is_active(key: &ApiKey) -> bool {
    let now = store::now();
    key.revoked_at.is_none() && key.expires_at.is_none_or(|expires_at| expires_at > now)
}

/// A new key string: 256 random bits.
pub(crate) fn new_key() -> String {
    let bytes: [u8; 32] = rand::random();
    format!("sk-{}", BASE32_NOPAD.encode(&bytes).to_ascii_lowercase())
}

/// The start of a key, stored to distinguish keys in lists. Short keys show less, so that most of a
/// key stays secret.
pub(crate) fn display_prefix(key: &str) -> String {
    let shown = (key.len() / 4).min(8);
    key.chars().take(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_keys_are_long_and_unique() {
        let (one, two) = (new_key(), new_key());
        assert!(one.starts_with("sk-") && one.len() == 55);
        assert_ne!(one, two);
        assert_eq!(display_prefix(&one), one[..8]);
        assert_eq!(display_prefix("secret"), "s");
    }

    #[test]
    fn hashes_depend_on_the_installation() {
        let hash = |secret| Keyring::new([secret; 32]).hash("sk-a");
        assert_eq!(hash(1), hash(1));
        assert_ne!(hash(1), hash(2));
    }
}
