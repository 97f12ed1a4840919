//! What can go wrong on our side, or be wrong with a request. A skill's own failure is never an
//! error: it is a stored execution with an outcome.

use std::fmt;

use blobs::BlobError;
use skill::{Finding, SkillError};
use store::StoreError;

use crate::Distrust;

/// A limit on what a tenant stores, with what it stores now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// As in the tenant's policy.
    pub name: &'static str,
    pub used_bytes: u64,
    pub limit_bytes: u64,
    /// What there was no room for.
    pub needed_bytes: u64,
}

impl Quota {
    pub const FILES: &str = "max_file_bytes";
    pub const STORED: &str = "max_stored_bytes";

    pub(crate) fn new(
        name: &'static str,
        used_bytes: i64,
        limit_bytes: i64,
        needed_bytes: i64,
    ) -> Quota {
        let bytes = |bytes| u64::try_from(bytes).unwrap_or(0);
        Quota {
            name,
            used_bytes: bytes(used_bytes),
            limit_bytes: bytes(limit_bytes),
            needed_bytes: bytes(needed_bytes),
        }
    }

    pub(crate) fn has_room_for(&self, bytes: u64) -> bool {
        self.used_bytes.saturating_add(bytes) <= self.limit_bytes
    }
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.name == Quota::FILES { "in uploaded files" } else { "in all" };
        let Quota { name, used_bytes, limit_bytes, needed_bytes } = self;
        write!(
            f,
            "the tenant stores {used_bytes} of at most {limit_bytes} bytes {what} ({name}), and this needs {needed_bytes} more"
        )
    }
}

#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("no such skill")]
    UnknownSkill,
    /// The request cannot be understood as it stands; the sentence is for the caller.
    #[error("{0}")]
    InvalidRequest(String),
    /// The package cannot be published as it stands; the sentence is for the author.
    #[error("{0}")]
    InvalidSkill(String),
    /// The tenant's rules about signatures and revocations forbid the upload.
    #[error("{0}")]
    Distrusted(Distrust),
    /// The scanner found these, and the tenant's policy is to refuse them.
    #[error("the scanner found what the tenant does not allow")]
    ScanRefused(Vec<Finding>),
    #[error("a reviewer rejected this content")]
    Rejected,
    #[error("this key may not run this skill")]
    ScopeSkill,
    #[error("this idempotency key was used with another request body")]
    IdempotencyMismatch,
    #[error("too many executions are waiting; try again later")]
    TooBusy,
    #[error("the server's memory for requests is in use; try again later")]
    NoMemory,
    #[error("{needed} bytes of memory are needed, and one tenant can have {most}")]
    ExceedsMemory { needed: u64, most: u64 },
    /// A stored archive is not what was published.
    #[error("a stored archive cannot be read")]
    Archive(#[source] SkillError),
    #[error(
        "the tenant asks for more executions a minute than its policy allows; try again in {retry_after_s} s"
    )]
    RateLimited { retry_after_s: u64 },
    #[error(
        "as many executions of the tenant wait as its policy allows; try again in {retry_after_s} s"
    )]
    QueueFull { retry_after_s: u64 },
    #[error("no such file")]
    NoSuchFile,
    #[error("the file is larger than {limit_bytes} bytes")]
    FileTooLarge { limit_bytes: u64 },
    #[error("{0}")]
    OverQuota(Quota),
    #[error("the disk is almost full, so nothing new is accepted")]
    DiskLow,
    #[error("the server is shutting down; try again")]
    ShuttingDown,
    #[error("the metadata store failed")]
    Store(#[source] StoreError),
    #[error("the blob store failed")]
    Blobs(#[from] BlobError),
    /// The task that carried the execution panicked; the reaper ends the execution when its lease
    /// runs out.
    #[error("the execution's task ended without a result")]
    Broken,
}

impl From<StoreError> for RunError {
    fn from(error: StoreError) -> RunError {
        match error {
            StoreError::IdempotencyMismatch => RunError::IdempotencyMismatch,
            StoreError::StorageFull { used_bytes, limit_bytes, needed_bytes } => {
                RunError::OverQuota(Quota::new(
                    Quota::STORED,
                    used_bytes,
                    limit_bytes,
                    needed_bytes,
                ))
            }
            other => RunError::Store(other),
        }
    }
}
