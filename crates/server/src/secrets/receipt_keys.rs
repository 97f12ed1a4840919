//! The keys that receipts are signed with: derived from the installation's secret, so every server
//! of it has the same and none is stored. Raising the generation changes the key; the earlier
//! public keys stay known.

use std::sync::Arc;

use skill::signature::{PublicKey, SecretKey};

use crate::secrets::Secret;
use crate::startup::serve::ServeError;

pub struct ReceiptKeys {
    pub signing: Arc<SecretKey>,
    /// By generation; the last is the one that signs.
    pub public: Vec<PublicKey>,
    /// The same, and those of the next generations: while servers are replaced, some sign with a
    /// later key already.
    pub recognised: Vec<PublicKey>,
}

/// By how many generations another server of this installation may be ahead.
const MAX_GENERATIONS_AHEAD: u32 = 4;

impl ReceiptKeys {
    pub fn derive(secret: &Secret, generation: u32) -> Result<ReceiptKeys, ServeError> {
        let key = |generation: u32| {
            let seed = secret.derive(&format!("receipt signing {generation}"));
            SecretKey::from_seed(seed).map_err(ServeError::ReceiptKey)
        };
        let public = |last: u32| {
            (1..=last).map(|generation| key(generation).map(|key| key.public())).collect()
        };
        let (known, recognised): (Result<_, _>, Result<_, _>) =
            (public(generation), public(generation + MAX_GENERATIONS_AHEAD));
        Ok(ReceiptKeys {
            signing: Arc::new(key(generation)?),
            public: known?,
            recognised: recognised?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_generation_has_its_own_key_and_knows_the_earlier_ones() {
        let secret = Secret::of("a secret of at least so many characters");
        let [first, third] =
            [1, 3].map(|generation| ReceiptKeys::derive(&secret, generation).expect("keys"));
        assert_eq!(first.public.len(), 1);
        assert_eq!(third.public[0], first.public[0]);
        assert_eq!(third.public.last(), Some(&third.signing.public()));
        assert_ne!(third.public[1], third.public[2]);
        assert!(
            first.recognised.contains(&third.public[2]),
            "a server that was not restarted yet knows the next keys"
        );
        let other = ReceiptKeys::derive(&Secret::of("another"), 1).expect("keys");
        assert_ne!(other.public[0], first.public[0]);
    }
}
