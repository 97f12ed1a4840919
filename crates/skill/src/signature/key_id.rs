//! The id of a key: eight bytes in the key and in every signature made with it.

use std::fmt;
use std::str::FromStr;

use super::SignatureError;

/// Spelled as sixteen hexadecimal digits, the last byte first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId(pub(super) [u8; 8]);

impl KeyId {
    /// The spelling of minisign in the comments of its files: without leading zeros.
    pub(super) fn in_comments(self) -> String {
        format!("{:X}", u64::from_le_bytes(self.0))
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016X}", u64::from_le_bytes(self.0))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for KeyId {
    type Err = SignatureError;

    fn from_str(text: &str) -> Result<KeyId, SignatureError> {
        let malformed = SignatureError::Malformed {
            what: "key id",
            why: "it is not up to sixteen hexadecimal digits",
        };
        // Minisign omits leading zeros, so shorter ids are valid.
        if !(1..=16).contains(&text.len()) || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(malformed);
        }
        u64::from_str_radix(text, 16).map(|id| KeyId(id.to_le_bytes())).map_err(|_| malformed)
    }
}
