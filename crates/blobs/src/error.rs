//! What can go wrong with a blob.

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
}

impl BlobError {
    /// For `map_err`: says what was being done when the system refused.
    pub(crate) fn io(action: &'static str) -> impl FnOnce(std::io::Error) -> BlobError {
        move |source| BlobError::Io { action, source }
    }
}
