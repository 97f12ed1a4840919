//! Keys derived from the one secret of the installation, one key for each purpose, so that a key for
//! one purpose is useless for another.

pub(crate) mod receipt_keys;

use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

/// The 32 random bytes in the data directory, or the SHA-256 of the secret that the operator set.
#[derive(Clone)]
pub(crate) struct Secret([u8; 32]);

impl Secret {
    pub(crate) fn new(bytes: [u8; 32]) -> Secret {
        Secret(bytes)
    }

    /// The secret that an operator set.
    pub(crate) fn from_text(text: &str) -> Secret {
        Secret(Sha256::digest(text).into())
    }

    /// Distinguishes secrets without revealing them.
    pub(crate) fn fingerprint(&self) -> String {
        HEXLOWER.encode(&self.derive("fingerprint"))
    }

    /// The key for one purpose.
    pub(crate) fn derive(&self, purpose: &str) -> [u8; 32] {
        mac(&self.0, &[b"skillbox ", purpose.as_bytes()])
    }
}

/// HMAC-SHA256 over the concatenated parts.
pub(crate) fn mac(key: &[u8; 32], parts: &[&[u8]]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}
