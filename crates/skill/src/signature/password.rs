//! Encrypts a secret key with a password: the key is XORed with a stream of bytes made by scrypt.

use scrypt::Params;

use super::SignatureError;

pub(super) const SALT_BYTES: usize = 32;
/// The id of a key, its two halves and its checksum.
pub(super) const KEY_STREAM_BYTES: usize = 104;
pub(super) type KeyStream = [u8; KEY_STREAM_BYTES];

/// Each guess at a password costs 128 MiB and half a second.
const DEFAULT_OPERATIONS: u64 = 1 << 22;
const DEFAULT_MEMORY: u64 = 1 << 27;

/// The parameters of minisign itself. More in a key file would be a denial of service.
const MAX_MEMORY: u64 = 1 << 30;
const MAX_OPERATIONS: u64 = 1 << 26;

/// The cost in the units of libsodium, because key files contain those.
pub(super) struct PasswordLock {
    pub salt: [u8; SALT_BYTES],
    pub operations: u64,
    pub memory: u64,
}

impl PasswordLock {
    pub(super) fn new(salt: [u8; SALT_BYTES]) -> PasswordLock {
        PasswordLock { salt, operations: DEFAULT_OPERATIONS, memory: DEFAULT_MEMORY }
    }

    /// The values in a key file without a password.
    pub(super) fn none() -> PasswordLock {
        PasswordLock { salt: [0; SALT_BYTES], operations: 0, memory: 0 }
    }

    /// XORs the key with the stream. Applying it twice restores the key.
    pub(super) fn apply(&self, password: &str, body: &mut KeyStream) -> Result<(), SignatureError> {
        let costly = || SignatureError::Malformed {
            what: "secret key",
            why: "its password costs too much to check",
        };
        if self.memory > MAX_MEMORY || self.operations > MAX_OPERATIONS {
            return Err(costly());
        }
        let mut stream = [0; KEY_STREAM_BYTES];
        let params = params(self.operations, self.memory).ok_or_else(costly)?;
        scrypt::scrypt(password.as_bytes(), &self.salt, &params, &mut stream)
            .map_err(|_| costly())?;
        for (byte, over) in body.iter_mut().zip(stream) {
            *byte ^= over;
        }
        Ok(())
    }
}

/// The parameters of scrypt for the two limits of libsodium, by the rule of libsodium.
fn params(operations: u64, memory: u64) -> Option<Params> {
    const BLOCK: u64 = 8;
    let operations = operations.max(1 << 15);
    let (rounds, in_parallel) = if operations < memory / 32 {
        (floor_log2(operations / (BLOCK * 4)), 1)
    } else {
        let rounds = floor_log2(memory / (BLOCK * 128));
        (rounds, (operations / 4 / (1 << rounds)).min(0x3fff_ffff) / BLOCK)
    };
    Params::new(rounds, BLOCK as u32, u32::try_from(in_parallel).ok()?).ok()
}

/// The exponent of the smallest power of two, at least 2, that is above half of `max`.
fn floor_log2(max: u64) -> u8 {
    (1..63).find(|power| 1u64 << power > max / 2).unwrap_or(63)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_counted_as_libsodium_does() {
        let expected = |log_n, p| Some(Params::new(log_n, 8, p).expect("valid"));
        assert_eq!(params(DEFAULT_OPERATIONS, DEFAULT_MEMORY), expected(17, 1));
        // Minisign's own, libsodium's "interactive", and one with more time than memory.
        assert_eq!(params(1 << 25, 1 << 30), expected(20, 1));
        assert_eq!(params(1 << 19, 1 << 24), expected(14, 1));
        assert_eq!(params(1 << 21, 1 << 24), expected(14, 4));
    }

    #[test]
    fn key_file_parameters_are_limited() {
        for (operations, memory) in
            [(1 << 25, (1 << 30) + 1), (1 << 40, 1 << 27), (u64::MAX, u64::MAX), (0, 0)]
        {
            let lock = PasswordLock { salt: [0; SALT_BYTES], operations, memory };
            let refused = lock.apply("guess", &mut [0; KEY_STREAM_BYTES]);
            assert!(refused.is_err() || operations == 0, "{operations} {memory}");
        }
    }
}
