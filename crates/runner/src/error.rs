//! Failures of Skillbox, and invalid requests. A skill's own failure is never an error: it is a
//! stored execution with an outcome.

use admission::{DiskLow, PermitError};
use blobs::BlobError;
use catalogue::StorageQuota;
use store::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("no such skill")]
    UnknownSkill,
    /// The request cannot be understood as it stands; the sentence is for the caller.
    #[error("{0}")]
    InvalidRequest(String),
    #[error("this key may not run this skill")]
    ScopeSkill,
    #[error("this idempotency key was used with another request body")]
    IdempotencyMismatch,
    #[error("too many executions are waiting; try again later")]
    TooBusy,
    #[error("no memory for the request: {0}")]
    Memory(#[from] PermitError),
    #[error(
        "the tenant asks for more executions a minute than its policy allows; try again in {retry_after_s} s"
    )]
    RateLimited { retry_after_s: u64 },
    #[error(
        "as many executions of the tenant wait as its policy allows; try again in {retry_after_s} s"
    )]
    QueueFull { retry_after_s: u64 },
    #[error("{0}")]
    OverQuota(StorageQuota),
    #[error(transparent)]
    DiskLow(#[from] DiskLow),
    #[error("the server is shutting down; try again")]
    ShuttingDown,
    #[error("the metadata store failed")]
    Store(#[source] StoreError),
    #[error("the blob store failed")]
    Blobs(#[from] BlobError),
    /// The task of the execution panicked; the reaper ends the execution when its lease expires.
    #[error("the execution's task ended without a result")]
    Broken,
}

impl From<StoreError> for RunError {
    fn from(error: StoreError) -> RunError {
        match error {
            StoreError::IdempotencyMismatch => RunError::IdempotencyMismatch,
            StoreError::StorageFull { used_bytes, limit_bytes, needed_bytes } => {
                RunError::OverQuota(StorageQuota::new(
                    StorageQuota::STORED,
                    used_bytes,
                    limit_bytes,
                    needed_bytes,
                ))
            }
            other => RunError::Store(other),
        }
    }
}
