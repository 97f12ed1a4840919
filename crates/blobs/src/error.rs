//! The errors of blob storage.

use crate::S3Problem;

/// A failed call on blob storage.
#[derive(Debug, thiserror::Error)]
pub enum BlobError {
    /// A stored text is not a blob key.
    #[error("this is not a blob key")]
    Key,
    #[error("the blob has {size} bytes, more than the {max} allowed here")]
    TooLarge { size: u64, max: u64 },
    /// An earlier write failed or was cancelled; the blob cannot be completed.
    #[error("the blob was not written completely")]
    Interrupted,
    #[error("cannot {action}: {source}")]
    Io { action: &'static str, source: std::io::Error },
    /// A setting is invalid; detected without a request to the object store.
    #[error("{setting} {why}")]
    Setting { setting: &'static str, why: &'static str },
    /// A request to the object store failed. The problem says what to check.
    #[error("cannot {action}: {problem}")]
    S3 { action: &'static str, problem: S3Problem },
}

impl BlobError {
    /// True when the object store could not be reached, so that the same call may succeed on retry.
    pub fn is_outage(&self) -> bool {
        let BlobError::S3 { problem, .. } = self else { return false };
        matches!(
            problem,
            S3Problem::Unreachable { .. } | S3Problem::Silent { .. } | S3Problem::Failing { .. }
        )
    }

    /// The requested range is not within the blob.
    pub(crate) fn too_short() -> BlobError {
        BlobError::io("read a part of a blob")(std::io::ErrorKind::UnexpectedEof.into())
    }

    /// For `map_err`: adds the action that failed.
    pub(crate) fn io(action: &'static str) -> impl FnOnce(std::io::Error) -> BlobError {
        move |source| BlobError::Io { action, source }
    }
}
