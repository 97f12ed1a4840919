//! Writing one blob of the directory backend.

use std::io::Write;
use std::sync::Arc;

use tempfile::NamedTempFile;

use super::{Directory, blocking};
use crate::{BlobError, BlobKey};

/// The buffer in memory. Most artifacts are smaller, and then all file operations are one task on a
/// blocking thread.
pub(crate) const BUFFER_BYTES: usize = 256 * 1024;

pub(crate) struct FileWriter {
    directory: Arc<Directory>,
    key: BlobKey,
    buffer: Vec<u8>,
    state: FileWriterState,
}

enum FileWriterState {
    /// All bytes so far are in the buffer.
    Buffered,
    Spilled(NamedTempFile),
    /// A write to the file is in progress, was cancelled, or failed.
    Broken,
}

impl FileWriter {
    pub(crate) fn new(directory: Arc<Directory>, key: BlobKey) -> FileWriter {
        FileWriter { directory, key, buffer: Vec::new(), state: FileWriterState::Buffered }
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) -> Result<(), BlobError> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() < BUFFER_BYTES {
            return Ok(());
        }
        let work = self.spill();
        let (file, mut buffer) = blocking(work).await?;
        buffer.clear();
        self.buffer = buffer;
        self.state = FileWriterState::Spilled(file);
        Ok(())
    }

    pub(crate) async fn finish(mut self) -> Result<(), BlobError> {
        let (directory, key) = (self.directory.clone(), self.key.clone());
        let spill = self.spill();
        blocking(move || {
            let (file, _) = spill()?;
            let published = directory.publish(file, &key);
            published.map_err(BlobError::io("store a blob"))
        })
        .await
    }

    /// The blocking task that writes the buffer to the file. The state is `Broken` until its result
    /// is put back: when a caller drops the future of a write, the bytes may be lost, and the blob
    /// must not be finished with a gap.
    fn spill(
        &mut self,
    ) -> impl FnOnce() -> Result<(NamedTempFile, Vec<u8>), BlobError> + Send + 'static {
        let directory = self.directory.clone();
        let buffer = std::mem::take(&mut self.buffer);
        let state = std::mem::replace(&mut self.state, FileWriterState::Broken);
        move || {
            let mut file = match state {
                FileWriterState::Buffered => {
                    directory.create_unfinished().map_err(BlobError::io("start a blob"))?
                }
                FileWriterState::Spilled(file) => file,
                FileWriterState::Broken => return Err(BlobError::Interrupted),
            };
            file.write_all(&buffer).map_err(BlobError::io("write a blob"))?;
            Ok((file, buffer))
        }
    }
}
