//! Signatures in the format of minisign: ed25519 keys, a signature over the BLAKE2b hash of a text,
//! a trusted comment.
//!
//! Owns the texts of keys and signatures, and the signed statement about a skill
//! ([`SkillStatement`]). Callers provide randomness, passwords and files, and decide whether a key
//! is trusted. All input is untrusted.

mod key_id;
mod lines;
mod minisig;
mod password;
mod public_key;
pub mod seal;
mod secret_key;
mod statement;

use std::fmt;

pub use key_id::KeyId;
pub use minisig::{Signature, VerifiedSignature};
pub use public_key::PublicKey;
pub use secret_key::SecretKey;
pub use statement::SkillStatement;

use crate::SkillError;
use crate::collector::FileCollector;

/// The file at the root of a skill that contains its signature. It is uploaded with the skill but
/// is not part of its content.
pub const SIGNATURE_FILE: &str = "SKILL.md.minisig";

/// Larger than any signature that minisign writes.
pub const MAX_SIGNATURE_BYTES: u64 = 4096;

/// Why a key or a signature cannot be used. Messages continue a sentence after a colon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignatureError {
    /// The text is not a key or a signature.
    Malformed {
        what: &'static str,
        why: &'static str,
    },
    /// Signed without hashing first, as minisign did before version 0.11.
    Legacy,
    /// Made with another key than the one it was checked with.
    OtherKey {
        made_with: KeyId,
    },
    /// It names the right key but is not valid for the checked message.
    Mismatch,
    /// The secret key is locked and no password was given.
    Locked,
    WrongPassword,
}

impl fmt::Display for SignatureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed { what, why } => write!(f, "the {what} cannot be read: {why}"),
            Self::Legacy => f.write_str(
                "the signature is of the old kind; sign again with minisign 0.11 or later",
            ),
            Self::OtherKey { made_with } => {
                write!(f, "the signature was made with the key {made_with}")
            }
            Self::Mismatch => f.write_str("the signature does not fit"),
            Self::Locked => f.write_str("the secret key needs its password"),
            Self::WrongPassword => {
                f.write_str("the password is wrong, or the secret key is damaged")
            }
        }
    }
}

impl std::error::Error for SignatureError {}

/// Removes the signature from the collected files, so that it is neither packed nor part of the
/// digest.
pub(crate) fn take_signature(
    collector: &mut FileCollector<'_>,
) -> Result<Option<String>, SkillError> {
    let is_signature = |path: &str| path.eq_ignore_ascii_case(SIGNATURE_FILE);
    let Some(at) = collector.sources.iter().position(|source| is_signature(&source.path)) else {
        return Ok(None);
    };
    let source = collector.sources.remove(at);
    let malformed =
        |why| SkillError::Signature(SignatureError::Malformed { what: "signature", why });
    if source.size > MAX_SIGNATURE_BYTES {
        return Err(malformed("it is larger than 4096 bytes"));
    }
    let mut bytes = Vec::new();
    source.content.append_to(&mut bytes, &source.path)?;
    let text = String::from_utf8(bytes).map_err(|_| malformed("it is not text"))?;
    text.parse::<Signature>().map_err(SkillError::Signature)?;
    Ok(Some(text))
}
