//! Public keys.

use std::fmt;
use std::str::FromStr;

use data_encoding::BASE64;

use super::lines::{LineReader, UNTRUSTED, take};
use super::{KeyId, SignatureError};

/// The algorithm of keys: plain ed25519.
pub(super) const KEY_ALGORITHM: [u8; 2] = *b"Ed";

const LENGTH: usize = 42;

/// A key that verifies signatures. Its text is one line of base64.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey {
    pub(super) id: KeyId,
    pub(super) point: [u8; 32],
}

impl PublicKey {
    pub fn id(&self) -> KeyId {
        self.id
    }

    /// The text of a key file, as `minisign -p` reads it.
    pub fn to_file(&self) -> String {
        format!("{UNTRUSTED}minisign public key {}\n{self}\n", self.id.in_comments())
    }
}

impl FromStr for PublicKey {
    type Err = SignatureError;

    /// Reads a key file, or its second line alone.
    fn from_str(text: &str) -> Result<PublicKey, SignatureError> {
        let text = text.trim();
        let mut lines = LineReader::new("public key", text);
        if text.contains('\n') {
            lines.comment(UNTRUSTED)?;
        }
        let bytes: [u8; LENGTH] = lines.bytes()?;
        let mut rest = bytes.as_slice();
        if take(&mut rest) != KEY_ALGORITHM {
            return lines.malformed("it is not an ed25519 key");
        }
        let key = PublicKey { id: KeyId(take(&mut rest)), point: take(&mut rest) };
        // With a point of small order an attacker could make signatures that verify.
        if ed25519_compact::PublicKey::new(key.point).validate().is_err() {
            return lines.malformed("it is not a point that can be a key");
        }
        lines.end()?;
        Ok(key)
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = [KEY_ALGORITHM.as_slice(), &self.id.0, &self.point].concat();
        f.write_str(&BASE64.encode(&bytes))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
