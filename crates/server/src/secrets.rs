//! Keys derived from the installation's one secret, one for each use, so that none can stand in for
//! another.

pub mod receipt_keys;

use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

/// The 32 random bytes kept in the data directory, or the operator's own secret, hashed to as many.
#[derive(Clone)]
pub struct Secret([u8; 32]);

impl Secret {
    pub fn new(bytes: [u8; 32]) -> Secret {
        Secret(bytes)
    }

    /// The secret that an operator chose.
    pub fn of(text: &str) -> Secret {
        Secret(Sha256::digest(text).into())
    }

    /// Tells secrets apart without telling anything about them.
    pub fn fingerprint(&self) -> String {
        HEXLOWER.encode(&self.derive("fingerprint"))
    }

    /// The key for one use.
    pub fn derive(&self, purpose: &str) -> [u8; 32] {
        mac(&self.0, &[b"skillbox ", purpose.as_bytes()])
    }
}

/// HMAC-SHA256 over the parts, one after the other.
pub fn mac(key: &[u8; 32], parts: &[&[u8]]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}
