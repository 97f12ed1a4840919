//! Signatures.

use std::fmt;
use std::str::FromStr;

use blake2::{Blake2b512, Digest};
use data_encoding::BASE64;

use super::lines::{LineReader, TRUSTED, UNTRUSTED, take};
use super::{KeyId, PublicKey, SignatureError};

/// The algorithm of signatures: ed25519 over a hash of the message.
const HASHED: [u8; 2] = *b"ED";
/// The same over the message itself. Not read: bytes signed so could also be somebody's hash.
const UNHASHED: [u8; 2] = *b"Ed";

const LENGTH: usize = 74;

/// A signature with its comments. Nothing in it is to be believed before it is verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    pub(super) untrusted_comment: String,
    pub(super) key_id: KeyId,
    pub(super) message_signature: [u8; 64],
    pub(super) trusted_comment: String,
    /// Over the first signature and the trusted comment.
    pub(super) global_signature: [u8; 64],
}

/// A signature that fits, and what it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedSignature {
    pub key_id: KeyId,
    pub trusted_comment: String,
    /// When the signer says it was made, in seconds since 1970.
    pub signed_at: Option<u64>,
}

impl Signature {
    /// The key it names; nobody has checked that it was that key.
    pub fn key_id(&self) -> KeyId {
        self.key_id
    }

    /// The first line after its prefix, which anybody may have changed.
    pub fn untrusted_comment(&self) -> &str {
        &self.untrusted_comment
    }

    pub fn verify(
        &self,
        key: &PublicKey,
        message: &[u8],
    ) -> Result<VerifiedSignature, SignatureError> {
        if self.key_id != key.id {
            return Err(SignatureError::OtherKey { made_with: self.key_id });
        }
        let fits = |message: &[u8], signature: [u8; 64]| {
            let signature = ed25519_compact::Signature::new(signature);
            ed25519_compact::PublicKey::new(key.point).verify(message, &signature).is_ok()
        };
        let both = [self.message_signature.as_slice(), self.trusted_comment.as_bytes()].concat();
        if !fits(&Blake2b512::digest(message), self.message_signature)
            || !fits(&both, self.global_signature)
        {
            return Err(SignatureError::Mismatch);
        }
        let signed_at = self
            .trusted_comment
            .split('\t')
            .find_map(|part| part.strip_prefix("timestamp:")?.parse().ok());
        Ok(VerifiedSignature {
            key_id: self.key_id,
            trusted_comment: self.trusted_comment.clone(),
            signed_at,
        })
    }
}

impl FromStr for Signature {
    type Err = SignatureError;

    fn from_str(text: &str) -> Result<Signature, SignatureError> {
        let mut lines = LineReader::new("signature", text);
        let untrusted_comment = lines.comment(UNTRUSTED)?.to_owned();
        let bytes: [u8; LENGTH] = lines.bytes()?;
        let mut rest = bytes.as_slice();
        match take(&mut rest) {
            HASHED => {}
            UNHASHED => return Err(SignatureError::Legacy),
            _ => return lines.malformed("it is not an ed25519 signature"),
        }
        let signature = Signature {
            untrusted_comment,
            key_id: KeyId(take(&mut rest)),
            message_signature: take(&mut rest),
            trusted_comment: lines.comment(TRUSTED)?.to_owned(),
            global_signature: lines.bytes()?,
        };
        lines.end()?;
        Ok(signature)
    }
}

/// The text of a signature file.
impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = [HASHED.as_slice(), &self.key_id.0, &self.message_signature].concat();
        writeln!(f, "{UNTRUSTED}{}", self.untrusted_comment)?;
        writeln!(f, "{}", BASE64.encode(&bytes))?;
        writeln!(f, "{TRUSTED}{}", self.trusted_comment)?;
        writeln!(f, "{}", BASE64.encode(&self.global_signature))
    }
}
