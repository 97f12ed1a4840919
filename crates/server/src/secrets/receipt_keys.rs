//! The keys that sign receipts: derived from the secret of the installation, so that all its servers
//! have the same keys and none is stored. A higher generation gives a new key; the public keys of
//! earlier generations stay listed.

use std::sync::Arc;

use skill::signature::{PublicKey, SecretKey};

use crate::secrets::Secret;
use crate::startup::serve::ServeError;

pub(crate) struct ReceiptKeys {
    pub signing: Arc<SecretKey>,
    /// By generation; the last belongs to the key that signs.
    pub public: Vec<PublicKey>,
    /// The same, and those of the next generations: while servers are replaced, some already sign
    /// with a later key.
    pub accepted: Vec<PublicKey>,
}

/// By how many generations another server of this installation may be ahead.
const MAX_GENERATIONS_AHEAD: u32 = 4;

impl ReceiptKeys {
    pub(crate) fn derive(secret: &Secret, generation: u32) -> Result<ReceiptKeys, ServeError> {
        let key = |generation: u32| {
            let seed = secret.derive(&format!("receipt signing {generation}"));
            SecretKey::from_seed(seed).map_err(ServeError::ReceiptKey)
        };
        let public = |last: u32| {
            (1..=last).map(|generation| key(generation).map(|key| key.public())).collect()
        };
        let (listed, accepted): (Result<_, _>, Result<_, _>) =
            (public(generation), public(generation + MAX_GENERATIONS_AHEAD));
        Ok(ReceiptKeys {
            signing: Arc::new(key(generation)?),
            public: listed?,
            accepted: accepted?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_generation_has_its_own_key_and_lists_the_earlier_ones() {
        let secret = Secret::from_text("a secret of at least so many characters");
        let [first, third] =
            [1, 3].map(|generation| ReceiptKeys::derive(&secret, generation).expect("keys"));
        assert_eq!(first.public.len(), 1);
        assert_eq!(third.public[0], first.public[0]);
        assert_eq!(third.public.last(), Some(&third.signing.public()));
        assert_ne!(third.public[1], third.public[2]);
        assert!(
            first.accepted.contains(&third.public[2]),
            "a server that was not restarted yet accepts the next keys"
        );
        let other = ReceiptKeys::derive(&Secret::from_text("another"), 1).expect("keys");
        assert_ne!(other.public[0], first.public[0]);
    }
}
