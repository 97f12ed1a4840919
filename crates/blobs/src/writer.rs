//! A blob being written: invisible until it is whole.

use std::io::Write;
use std::sync::Arc;

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

use crate::directory::{Directory, blocking};
use crate::{BlobError, Key, Stored};

/// What is held in memory before it goes to the file. Most artifacts are smaller, and then all
/// file work is one trip to a blocking thread.
const BUFFER: usize = 256 * 1024;

/// Takes bytes as they come and hashes them on the way; dropping it leaves nothing behind.
pub struct Writer {
    directory: Arc<Directory>,
    key: Key,
    sha256: Sha256,
    size: u64,
    buffer: Vec<u8>,
    state: State,
}

enum State {
    /// All bytes so far are in the buffer.
    Buffered,
    Spilled(NamedTempFile),
    /// A write to the file is under way, was abandoned, or failed.
    Broken,
}

impl Writer {
    pub(crate) fn new(directory: Arc<Directory>, key: Key) -> Writer {
        Writer { directory, key, sha256: Sha256::new(), size: 0, buffer: Vec::new(), state: State::Buffered }
    }

    /// How many bytes were written so far.
    pub fn size(&self) -> u64 {
        self.size
    }

    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), BlobError> {
        self.sha256.update(bytes);
        self.size += bytes.len() as u64;
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() < BUFFER {
            return Ok(());
        }
        let work = self.spill();
        let (file, mut buffer) = blocking(work).await?;
        buffer.clear();
        self.buffer = buffer;
        self.state = State::Spilled(file);
        Ok(())
    }

    /// Publishes the blob under its key, replacing what was there, and tells what it is.
    pub async fn finish(mut self) -> Result<Stored, BlobError> {
        let (directory, key) = (self.directory.clone(), self.key.clone());
        let spill = self.spill();
        blocking(move || {
            let (file, _) = spill()?;
            let published = directory.publish(file, &key);
            published.map_err(BlobError::io("store a blob"))
        })
        .await?;
        Ok(Stored { size: self.size, sha256: HEXLOWER.encode(&self.sha256.finalize()) })
    }

    /// The work of moving the buffer to the file. Until its result is put back the writer is
    /// broken, so that a caller who abandons a write cannot finish a blob with a hole in it.
    fn spill(&mut self) -> impl FnOnce() -> Result<(NamedTempFile, Vec<u8>), BlobError> + Send + 'static {
        let directory = self.directory.clone();
        let buffer = std::mem::take(&mut self.buffer);
        let state = std::mem::replace(&mut self.state, State::Broken);
        move || {
            let mut file = match state {
                State::Buffered => directory.unfinished().map_err(BlobError::io("start a blob"))?,
                State::Spilled(file) => file,
                State::Broken => return Err(BlobError::Interrupted),
            };
            file.write_all(&buffer).map_err(BlobError::io("write a blob"))?;
            Ok((file, buffer))
        }
    }
}
