//! What can go wrong on our side, or be wrong with a request. A skill's own failure is never an error: it is a
//! stored execution with an outcome.

use blobs::BlobError;
use store::StoreError;

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
    #[error("this key may not run this skill")]
    ScopeSkill,
    #[error("this idempotency key was used with another request body")]
    IdempotencyMismatch,
    #[error("too many executions are waiting; try again later")]
    TooBusy,
    #[error("the server is shutting down; try again")]
    ShuttingDown,
    #[error("the metadata store failed")]
    Store(#[source] StoreError),
    #[error("the blob store failed")]
    Blobs(#[from] BlobError),
    /// The task that carried the execution panicked; the reaper ends the execution when its lease runs out.
    #[error("the execution's task ended without a result")]
    Broken,
}

impl From<StoreError> for RunError {
    fn from(error: StoreError) -> RunError {
        match error {
            StoreError::IdempotencyMismatch => RunError::IdempotencyMismatch,
            other => RunError::Store(other),
        }
    }
}
