//! Parsing, formatting and verifying signatures.

use std::fmt;
use std::str::FromStr;

use blake2::{Blake2b512, Digest};
use data_encoding::BASE64;

use super::lines::{LineReader, TRUSTED, UNTRUSTED, take};
use super::{KeyId, PublicKey, SignatureError};

/// The algorithm of signatures: ed25519 over a hash of the message.
const HASHED: [u8; 2] = *b"ED";
/// The same over the message itself. Rejected, because the signed message could be the hash of
/// another message, for which the signature would then be valid too.
const UNHASHED: [u8; 2] = *b"Ed";

const LENGTH: usize = 74;

/// A signature with its comments. Nothing in it can be trusted before it is verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    pub(super) untrusted_comment: String,
    pub(super) key_id: KeyId,
    pub(super) message_signature: [u8; 64],
    pub(super) trusted_comment: String,
    /// Over the first signature and the trusted comment.
    pub(super) global_signature: [u8; 64],
}

/// The verified content of a signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedSignature {
    pub key_id: KeyId,
    pub trusted_comment: String,
    /// The time of signing as claimed by the signer, in seconds since 1970.
    pub signed_at: Option<u64>,
}

impl Signature {
    /// The id of the key that the signature names, unverified.
    pub fn key_id(&self) -> KeyId {
        self.key_id
    }

    /// The first line without its prefix. It is not signed, so it may have been changed.
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
        let is_valid = |message: &[u8], signature: [u8; 64]| {
            let signature = ed25519_compact::Signature::new(signature);
            ed25519_compact::PublicKey::new(key.point).verify(message, &signature).is_ok()
        };
        // The second signature binds the trusted comment to this signature, so that the comment of
        // another one cannot be attached.
        let both = [self.message_signature.as_slice(), self.trusted_comment.as_bytes()].concat();
        if !is_valid(&Blake2b512::digest(message), self.message_signature)
            || !is_valid(&both, self.global_signature)
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
