//! Secret keys, and signing with them.

use std::fmt;

use blake2::{Blake2b256, Blake2b512, Digest};
use data_encoding::BASE64;
use ed25519_compact::{KeyPair, Seed};

use super::lines::{LineReader, UNTRUSTED, take};
use super::password::{KEY_STREAM_BYTES, KeyStream, PasswordLock, SALT_BYTES};
use super::public_key::KEY_ALGORITHM;
use super::{KeyId, PublicKey, Signature, SignatureError};

const LENGTH: usize = 158;
const NO_LOCK: [u8; 2] = [0, 0];
const SCRYPT: [u8; 2] = *b"Sc";
const CHECKSUM: [u8; 2] = *b"B2";

/// A key that signs. Only its id is ever printed.
pub struct SecretKey {
    id: KeyId,
    pair: KeyPair,
}

impl SecretKey {
    /// The key made from 32 secret bytes. Its id is a hash of its public half.
    pub fn from_seed(seed: [u8; 32]) -> Result<SecretKey, SignatureError> {
        let pair = KeyPair::try_from_seed(Seed::new(seed));
        let pair = pair.map_err(|_| malformed("it is all zeros"))?;
        let id = take(&mut Blake2b512::digest(pair.pk.as_slice()).as_slice());
        Ok(SecretKey { id: KeyId(id), pair })
    }

    /// Reads a key file of Skillbox or minisign. A locked one needs its password.
    pub fn read(text: &str, password: Option<&str>) -> Result<SecretKey, SignatureError> {
        let mut lines = LineReader::new("secret key", text.trim());
        lines.comment(UNTRUSTED)?;
        let bytes: [u8; LENGTH] = lines.bytes()?;
        let mut rest = bytes.as_slice();
        let (algorithm, lock, checksum) =
            (take::<2>(&mut rest), take::<2>(&mut rest), take::<2>(&mut rest));
        if algorithm != KEY_ALGORITHM || checksum != CHECKSUM {
            return lines.malformed("it is not an ed25519 key");
        }
        lines.end()?;
        let salt = take(&mut rest);
        let (operations, memory) =
            (u64::from_le_bytes(take(&mut rest)), u64::from_le_bytes(take(&mut rest)));
        let mut body: KeyStream = take(&mut rest);
        match (lock, password) {
            (NO_LOCK, _) => {}
            (SCRYPT, None) => return Err(SignatureError::Locked),
            (SCRYPT, Some(password)) => {
                PasswordLock { salt, operations, memory }.apply(password, &mut body)?
            }
            _ => return Err(malformed("it is locked with an unsupported algorithm")),
        }
        let key = SecretKey::from_body(&body)?;
        // Minisign writes no checksum into a key without a password.
        if lock == SCRYPT && body[72..] != key.checksum() {
            return Err(SignatureError::WrongPassword);
        }
        Ok(key)
    }

    /// The text of a key file, locked if a password and a random salt are given.
    pub fn to_file(
        &self,
        lock: Option<(&str, [u8; SALT_BYTES])>,
    ) -> Result<String, SignatureError> {
        let mut body = [0; KEY_STREAM_BYTES];
        body[..8].copy_from_slice(&self.id.0);
        body[8..72].copy_from_slice(self.pair.sk.as_slice());
        body[72..].copy_from_slice(&self.checksum());
        let (kind, lock) = match lock {
            None => (NO_LOCK, PasswordLock::none()),
            Some((password, salt)) => {
                let lock = PasswordLock::new(salt);
                lock.apply(password, &mut body)?;
                (SCRYPT, lock)
            }
        };
        let bytes = [
            KEY_ALGORITHM.as_slice(),
            &kind,
            &CHECKSUM,
            &lock.salt,
            &lock.operations.to_le_bytes(),
            &lock.memory.to_le_bytes(),
            &body,
        ];
        Ok(format!(
            "{UNTRUSTED}minisign encrypted secret key\n{}\n",
            BASE64.encode(&bytes.concat())
        ))
    }

    pub fn public(&self) -> PublicKey {
        PublicKey { id: self.id, point: *self.pair.pk }
    }

    /// Signs `message` and `trusted_comment`. Deterministic.
    pub fn sign(
        &self,
        message: &[u8],
        untrusted_comment: &str,
        trusted_comment: &str,
    ) -> Signature {
        let message_signature = self.pair.sk.sign(Blake2b512::digest(message), None);
        let global_signature = self
            .pair
            .sk
            .sign([message_signature.as_slice(), trusted_comment.as_bytes()].concat(), None);
        Signature {
            untrusted_comment: untrusted_comment.to_owned(),
            key_id: self.id,
            message_signature: *message_signature,
            trusted_comment: trusted_comment.to_owned(),
            global_signature: *global_signature,
        }
    }

    fn from_body(body: &KeyStream) -> Result<SecretKey, SignatureError> {
        let mut rest = body.as_slice();
        let (id, bytes) = (KeyId(take(&mut rest)), take::<64>(&mut rest));
        let pair = KeyPair::try_from_seed(Seed::new(take(&mut bytes.as_slice())));
        // Signing with a public half that does not belong to the secret one would reveal the
        // secret.
        let pair = pair
            .ok()
            .filter(|pair| pair.sk.as_slice() == bytes)
            .ok_or(SignatureError::WrongPassword)?;
        Ok(SecretKey { id, pair })
    }

    fn checksum(&self) -> [u8; 32] {
        let hash = Blake2b256::new().chain_update(KEY_ALGORITHM).chain_update(self.id.0);
        hash.chain_update(self.pair.sk.as_slice()).finalize().into()
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretKey({})", self.id)
    }
}

fn malformed(why: &'static str) -> SignatureError {
    SignatureError::Malformed { what: "secret key", why }
}
