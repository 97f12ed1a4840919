//! A file on its way into the directory.

use std::io::Write;
use std::sync::Arc;

use tempfile::NamedTempFile;

use super::{Directory, blocking};
use crate::{BlobError, BlobKey};

/// What is held in memory before it goes to the file. Most artifacts are smaller, and then all
/// file work is one trip to a blocking thread.
pub(crate) const BUFFER: usize = 256 * 1024;

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
    /// A write to the file is under way, was abandoned, or failed.
    Broken,
}

impl FileWriter {
    pub fn new(directory: Arc<Directory>, key: BlobKey) -> FileWriter {
        FileWriter { directory, key, buffer: Vec::new(), state: FileWriterState::Buffered }
    }

    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), BlobError> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() < BUFFER {
            return Ok(());
        }
        let work = self.spill();
        let (file, mut buffer) = blocking(work).await?;
        buffer.clear();
        self.buffer = buffer;
        self.state = FileWriterState::Spilled(file);
        Ok(())
    }

    pub async fn finish(mut self) -> Result<(), BlobError> {
        let (directory, key) = (self.directory.clone(), self.key.clone());
        let spill = self.spill();
        blocking(move || {
            let (file, _) = spill()?;
            let published = directory.publish(file, &key);
            published.map_err(BlobError::io("store a blob"))
        })
        .await
    }

    /// The work of moving the buffer to the file. Until its result is put back the file is
    /// broken, so that a caller who abandons a write cannot finish a blob with a hole in it.
    fn spill(
        &mut self,
    ) -> impl FnOnce() -> Result<(NamedTempFile, Vec<u8>), BlobError> + Send + 'static {
        let directory = self.directory.clone();
        let buffer = std::mem::take(&mut self.buffer);
        let state = std::mem::replace(&mut self.state, FileWriterState::Broken);
        move || {
            let mut file = match state {
                FileWriterState::Buffered => {
                    directory.unfinished().map_err(BlobError::io("start a blob"))?
                }
                FileWriterState::Spilled(file) => file,
                FileWriterState::Broken => return Err(BlobError::Interrupted),
            };
            file.write_all(&buffer).map_err(BlobError::io("write a blob"))?;
            Ok((file, buffer))
        }
    }
}
