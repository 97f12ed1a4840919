//! Limits on the stored bytes of a tenant.

use std::fmt;

/// A limit on what a tenant stores, with what it stores now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StorageQuota {
    /// The field of the tenant's policy.
    pub name: &'static str,
    pub used_bytes: u64,
    pub limit_bytes: u64,
    /// The size of what did not fit.
    pub needed_bytes: u64,
}

impl StorageQuota {
    /// Uploaded files.
    pub const FILES: &str = "max_file_bytes";
    /// Everything that is stored.
    pub const STORED: &str = "max_stored_bytes";

    pub fn new(
        name: &'static str,
        used_bytes: i64,
        limit_bytes: i64,
        needed_bytes: i64,
    ) -> StorageQuota {
        let bytes = |bytes| u64::try_from(bytes).unwrap_or(0);
        StorageQuota {
            name,
            used_bytes: bytes(used_bytes),
            limit_bytes: bytes(limit_bytes),
            needed_bytes: bytes(needed_bytes),
        }
    }

    /// Whether that many more bytes fit.
    pub(crate) fn fits(&self, bytes: u64) -> bool {
        self.used_bytes.saturating_add(bytes) <= self.limit_bytes
    }
}

impl fmt::Display for StorageQuota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.name == StorageQuota::FILES { "in uploaded files" } else { "in all" };
        let StorageQuota { name, used_bytes, limit_bytes, needed_bytes } = self;
        write!(
            f,
            "the tenant stores {used_bytes} of at most {limit_bytes} bytes {what} ({name}), and this needs {needed_bytes} more"
        )
    }
}
