//! Keys derived from the installation's one secret, one for each use, so that none can stand in for another.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The 32 random bytes kept in the data directory.
#[derive(Clone)]
pub struct Secret([u8; 32]);

impl Secret {
    pub fn new(bytes: [u8; 32]) -> Secret {
        Secret(bytes)
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
