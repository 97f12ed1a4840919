//! What can go wrong with a blob.

use crate::S3Problem;

/// A failed call on the blobs.
#[derive(Debug, thiserror::Error)]
pub enum BlobError {
    /// A text read from elsewhere is not a key we have made.
    #[error("this is not the key of a blob")]
    Key,
    #[error("the blob has {size} bytes, more than the {max} allowed here")]
    TooLarge { size: u64, max: u64 },
    /// An earlier write failed or was abandoned half-way; the blob cannot be completed.
    #[error("the blob was not written to its end")]
    Interrupted,
    #[error("cannot {action}: {source}")]
    Io { action: &'static str, source: std::io::Error },
    /// A setting is wrong in a way that can be told without asking the object store.
    #[error("{setting} {why}")]
    Setting { setting: &'static str, why: &'static str },
    /// The object store did not do it. The problem says what to look at.
    #[error("cannot {action}: {problem}")]
    S3 { action: &'static str, problem: S3Problem },
}

impl BlobError {
    /// True when the object store could not be asked, so that the same call may succeed in a
    /// moment.
    pub fn is_outage(&self) -> bool {
        let BlobError::S3 { problem, .. } = self else { return false };
        matches!(
            problem,
            S3Problem::Unreachable { .. } | S3Problem::Silent { .. } | S3Problem::Failing { .. }
        )
    }

    /// A part was asked for that the blob does not have.
    pub(crate) fn too_short() -> BlobError {
        BlobError::io("read a part of a blob")(std::io::ErrorKind::UnexpectedEof.into())
    }

    /// For `map_err`: says what was being done when the system refused.
    pub(crate) fn io(action: &'static str) -> impl FnOnce(std::io::Error) -> BlobError {
        move |source| BlobError::Io { action, source }
    }
}
