//! Bytes too large for the database: skill archives, artifacts, and the archives of artifacts.
//!
//! Owns where they lie, how their keys are spelled and the tokens that let a bearer fetch one.
//! Knows no HTTP and no database. A key starts with its tenant; there is no other way to name a
//! blob, so no caller can reach another tenant's by mistake.

mod directory;
mod error;
mod key;
mod sign;
mod writer;

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use tokio::io::AsyncRead;

use directory::Directory;
pub use error::BlobError;
pub use key::{Key, Prefix};
pub use sign::{Claims, SignError, Signer};
pub use writer::Writer;

/// A handle on the place where blobs lie; clones share it.
#[derive(Clone, Debug)]
pub struct Blobs {
    backend: Backend,
}

#[derive(Clone, Debug)]
enum Backend {
    Directory(Arc<Directory>),
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    pub size: u64,
    /// Lower-case hexadecimal.
    pub sha256: String,
}

/// A blob being read.
pub struct Reader {
    pub size: u64,
    pub stream: Pin<Box<dyn AsyncRead + Send>>,
}

impl Blobs {
    /// Blobs as files below `root`, which is made if it is missing and must be this process's alone: what is
    /// unfinished in there was left by one that died, and is removed.
    pub fn directory(root: PathBuf) -> Result<Blobs, BlobError> {
        let backend = Backend::Directory(Arc::new(Directory::open(root)?));
        Ok(Blobs { backend })
    }

    /// Stores all of `bytes`, replacing what was there.
    pub async fn put(&self, key: &Key, bytes: Bytes) -> Result<Stored, BlobError> {
        let mut writer = self.writer(key);
        writer.write(&bytes).await?;
        writer.finish().await
    }

    /// The whole blob; an error when it is longer than `max` bytes, nothing when it is missing.
    pub async fn get(&self, key: &Key, max: u64) -> Result<Option<Bytes>, BlobError> {
        match &self.backend {
            Backend::Directory(directory) => directory.get(key, max).await,
        }
    }

    /// The blob as a stream, or nothing when it is missing.
    pub async fn open(&self, key: &Key) -> Result<Option<Reader>, BlobError> {
        match &self.backend {
            Backend::Directory(directory) => directory.open_blob(key).await,
        }
    }

    /// Starts a blob that becomes visible, whole, when the writer finishes.
    pub fn writer(&self, key: &Key) -> Writer {
        match &self.backend {
            Backend::Directory(directory) => Writer::new(directory.clone(), key.clone()),
        }
    }

    /// Removes a blob; false when it was not there.
    pub async fn delete(&self, key: &Key) -> Result<bool, BlobError> {
        match &self.backend {
            Backend::Directory(directory) => directory.delete(key).await,
        }
    }

    /// Removes everything below `prefix`; false when there was nothing.
    pub async fn delete_prefix(&self, prefix: &Prefix) -> Result<bool, BlobError> {
        match &self.backend {
            Backend::Directory(directory) => directory.delete_prefix(prefix).await,
        }
    }

    /// Whether a blob could be stored now.
    pub async fn ping(&self) -> Result<(), BlobError> {
        match &self.backend {
            Backend::Directory(directory) => directory.ping().await,
        }
    }
}
