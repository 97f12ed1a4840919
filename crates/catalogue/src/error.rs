//! Why a call on the catalogue failed: the package or the file is at fault, a limit was reached, or
//! we failed.

use admission::{DiskLow, PermitError};
use blobs::BlobError;
use skill::{Finding, SkillError};
use store::StoreError;

use crate::{StorageQuota, TrustProblem};

#[derive(Debug, thiserror::Error)]
pub enum CatalogueError {
    /// A field of a file upload cannot be used; the sentence is for the caller.
    #[error("{0}")]
    InvalidFile(String),
    /// The package cannot be published as it is; the sentence is for its author.
    #[error("{0}")]
    InvalidSkill(String),
    /// The tenant's rules about signatures and revocations forbid the upload.
    #[error("{0}")]
    Untrusted(TrustProblem),
    /// The findings of the scanner; the tenant's policy is to refuse them.
    #[error("the scanner found problems that the tenant does not allow")]
    ScanRefused(Vec<Finding>),
    #[error("a reviewer rejected this content")]
    Rejected,
    /// No thread was free in time to compile the skill's schemas.
    #[error("the threads that compile schemas are busy; try again later")]
    WorkersBusy,
    #[error("no memory for the request: {0}")]
    Memory(#[from] PermitError),
    /// A stored archive is not what was published.
    #[error("a stored archive cannot be read")]
    Archive(#[source] SkillError),
    #[error("no such file")]
    NoSuchFile,
    #[error("the file is larger than {limit_bytes} bytes")]
    FileTooLarge { limit_bytes: u64 },
    #[error("{0}")]
    OverQuota(StorageQuota),
    #[error(transparent)]
    DiskLow(#[from] DiskLow),
    #[error("the metadata store failed")]
    Store(#[source] StoreError),
    #[error("the blob store failed")]
    Blobs(#[from] BlobError),
    #[error("a task panicked")]
    TaskPanicked,
}

impl From<StoreError> for CatalogueError {
    fn from(error: StoreError) -> CatalogueError {
        match error {
            StoreError::StorageFull { used_bytes, limit_bytes, needed_bytes } => {
                CatalogueError::OverQuota(StorageQuota::new(
                    StorageQuota::STORED,
                    used_bytes,
                    limit_bytes,
                    needed_bytes,
                ))
            }
            other => CatalogueError::Store(other),
        }
    }
}
