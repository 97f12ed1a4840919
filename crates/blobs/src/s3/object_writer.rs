//! Writing one blob of the S3 backend: one request when it is small, a multipart upload otherwise.

use std::sync::Arc;

use super::S3;
use super::multipart::MultipartHandle;
use crate::{BlobError, BlobKey};

/// The minimum part size of the protocol, because several parts are held in memory. The maximum of
/// ten thousand parts makes 50 GB.
pub(crate) const PART_BYTES: usize = 5 << 20;

pub(crate) struct ObjectWriter {
    s3: Arc<S3>,
    key: BlobKey,
    /// At most one part.
    buffer: Vec<u8>,
    state: ObjectWriterState,
}

enum ObjectWriterState {
    /// All bytes so far are in the buffer.
    Buffered,
    Parts(MultipartHandle),
    /// A part is being handed over, or that was cancelled or failed.
    Broken,
}

impl ObjectWriter {
    pub(crate) fn new(s3: Arc<S3>, key: BlobKey) -> ObjectWriter {
        ObjectWriter { s3, key, buffer: Vec::new(), state: ObjectWriterState::Buffered }
    }

    /// A full buffer is kept until more bytes arrive, so that the last part is never empty.
    pub(crate) async fn write(&mut self, mut bytes: &[u8]) -> Result<(), BlobError> {
        while self.buffer.len() + bytes.len() > PART_BYTES {
            let (now, later) = bytes.split_at(PART_BYTES - self.buffer.len());
            self.buffer.extend_from_slice(now);
            bytes = later;
            self.hand_over().await?;
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    pub(crate) async fn finish(self) -> Result<(), BlobError> {
        match self.state {
            ObjectWriterState::Buffered => self.s3.put(&self.key, self.buffer).await,
            ObjectWriterState::Parts(multipart) => multipart.finish(self.buffer).await,
            ObjectWriterState::Broken => Err(BlobError::Interrupted),
        }
    }

    /// The state is `Broken` until the part has been handed over: when a caller drops the future of
    /// a write, the part is lost, and the blob must not be finished with a gap.
    async fn hand_over(&mut self) -> Result<(), BlobError> {
        let part = std::mem::replace(&mut self.buffer, Vec::with_capacity(PART_BYTES));
        let multipart = match std::mem::replace(&mut self.state, ObjectWriterState::Broken) {
            ObjectWriterState::Buffered => {
                MultipartHandle::start(self.s3.clone(), self.key.clone())
            }
            ObjectWriterState::Parts(multipart) => multipart,
            ObjectWriterState::Broken => return Err(BlobError::Interrupted),
        };
        self.state = ObjectWriterState::Parts(multipart.push(part).await?);
        Ok(())
    }
}
