//! Locking a secret key with a password: scrypt makes a stream of bytes that is laid over the key.

use scrypt::Params;

use super::SignatureError;

pub const SALT_BYTES: usize = 32;
/// A key's name, its two halves and its checksum.
pub const KEY_STREAM_BYTES: usize = 104;
pub type KeyStream = [u8; KEY_STREAM_BYTES];

/// 128 MiB and half a second for whoever guesses a password.
const DEFAULT_OPERATIONS: u64 = 1 << 22;
const DEFAULT_MEMORY: u64 = 1 << 27;

/// What minisign itself asks for. A key file that wants more wants our memory.
const MAX_MEMORY: u64 = 1 << 30;
const MAX_OPERATIONS: u64 = 1 << 26;

/// The cost is written as libsodium counts it, because that is what stands in key files.
pub struct PasswordLock {
    pub salt: [u8; SALT_BYTES],
    pub operations: u64,
    pub memory: u64,
}

impl PasswordLock {
    pub fn new(salt: [u8; SALT_BYTES]) -> PasswordLock {
        PasswordLock { salt, operations: DEFAULT_OPERATIONS, memory: DEFAULT_MEMORY }
    }

    /// What stands in a key file without a password.
    pub fn none() -> PasswordLock {
        PasswordLock { salt: [0; SALT_BYTES], operations: 0, memory: 0 }
    }

    /// Lays the stream over the key. Doing it twice undoes it.
    pub fn apply(&self, password: &str, body: &mut KeyStream) -> Result<(), SignatureError> {
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

/// scrypt's own parameters for libsodium's two bounds, by libsodium's rule.
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

/// The least power of two, from the first on, that is above half of `most`.
fn floor_log2(most: u64) -> u8 {
    (1..63).find(|power| 1u64 << power > most / 2).unwrap_or(63)
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
    fn a_key_file_cannot_ask_for_all_memory() {
        for (operations, memory) in
            [(1 << 25, (1 << 30) + 1), (1 << 40, 1 << 27), (u64::MAX, u64::MAX), (0, 0)]
        {
            let lock = PasswordLock { salt: [0; SALT_BYTES], operations, memory };
            let refused = lock.apply("guess", &mut [0; KEY_STREAM_BYTES]);
            assert!(refused.is_err() || operations == 0, "{operations} {memory}");
        }
    }
}
