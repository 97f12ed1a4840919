//! Blob storage for what is too large for the database: skill archives, artifacts and uploads.
//!
//! Owns the backends (a directory or S3), the format of keys, and the two ways to download a blob
//! without another credential: a presigned URL of the object store, or a download token of ours.
//! Must not know the HTTP server or the database. Every key starts with its tenant, so no caller
//! can reach another tenant's blob by mistake.

#![forbid(unsafe_code)]

mod directory;
mod download_token;
mod error;
mod key;
mod s3;
mod verified;
mod writer;

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt};

use directory::Directory;
pub use download_token::{DownloadClaims, DownloadTokenError, DownloadTokenSigner};
pub use error::BlobError;
pub use key::{BlobKey, BlobPrefix};
use s3::S3;
pub use s3::{S3Config, S3Problem};
use verified::VerifiedStream;
pub use writer::BlobWriter;

/// A handle on the blob storage; clones share it.
#[derive(Clone, Debug)]
pub struct Blobs {
    backend: BlobBackend,
}

#[derive(Clone, Debug)]
enum BlobBackend {
    Directory(Arc<Directory>),
    S3(Arc<S3>),
}

/// The size and hash of a written blob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredBlob {
    pub size: u64,
    /// Lower-case hexadecimal.
    pub sha256: String,
}

/// A blob being read.
pub struct BlobReader {
    pub size: u64,
    pub stream: Pin<Box<dyn AsyncRead + Send>>,
}

impl Blobs {
    /// Blobs as files below `root`, which is created if it is missing. Only one process may use it:
    /// unfinished files in it are taken for leftovers of a dead process and removed.
    pub fn directory(root: PathBuf) -> Result<Blobs, BlobError> {
        let backend = BlobBackend::Directory(Arc::new(Directory::open(root)?));
        Ok(Blobs { backend })
    }

    /// Blobs as objects in two buckets, which are created if they are missing. Any number of
    /// processes may share them. Fails unless an object can be written to and deleted from both.
    pub async fn s3(config: S3Config) -> Result<Blobs, BlobError> {
        let backend = BlobBackend::S3(S3::connect(config).await?);
        Ok(Blobs { backend })
    }

    /// Stores a whole blob, replacing an existing one.
    pub async fn put(&self, key: &BlobKey, bytes: Bytes) -> Result<StoredBlob, BlobError> {
        let mut writer = self.writer(key);
        writer.write(&bytes).await?;
        writer.finish().await
    }

    /// The whole blob; `None` when it is missing, an error when it is longer than `max` bytes.
    pub async fn get(&self, key: &BlobKey, max: u64) -> Result<Option<Bytes>, BlobError> {
        match &self.backend {
            BlobBackend::Directory(directory) => directory.get(key, max).await,
            BlobBackend::S3(s3) => s3.get(key, max).await,
        }
    }

    /// The size of a blob; `None` when it is missing.
    pub async fn size(&self, key: &BlobKey) -> Result<Option<u64>, BlobError> {
        match &self.backend {
            BlobBackend::Directory(directory) => directory.size(key).await,
            BlobBackend::S3(s3) => s3.size(key).await,
        }
    }

    /// The blob as a stream; `None` when it is missing.
    pub async fn open(&self, key: &BlobKey) -> Result<Option<BlobReader>, BlobError> {
        match &self.backend {
            BlobBackend::Directory(directory) => directory.open_blob(key).await,
            BlobBackend::S3(s3) => s3.open_blob(key).await,
        }
    }

    /// `length` bytes of the blob from `start` on; `None` when it is missing, an error when it is
    /// shorter.
    pub async fn open_range(
        &self,
        key: &BlobKey,
        start: u64,
        length: u64,
    ) -> Result<Option<BlobReader>, BlobError> {
        match &self.backend {
            BlobBackend::Directory(directory) => directory.open_range(key, start, length).await,
            BlobBackend::S3(s3) => s3.open_range(key, start, length).await,
        }
    }

    /// The maximum buffer size of a writer.
    pub fn writer_bytes(&self) -> u64 {
        match &self.backend {
            BlobBackend::Directory(_) => directory::WRITER_BYTES as u64,
            BlobBackend::S3(_) => s3::WRITER_BYTES as u64,
        }
    }

    /// Starts a blob. It becomes visible atomically when the writer finishes.
    pub fn writer(&self, key: &BlobKey) -> BlobWriter {
        match &self.backend {
            BlobBackend::Directory(directory) => {
                BlobWriter::to_file(directory.clone(), key.clone())
            }
            BlobBackend::S3(s3) => BlobWriter::to_object(s3.clone(), key.clone()),
        }
    }

    /// Deletes a blob, if it exists.
    pub async fn delete(&self, key: &BlobKey) -> Result<(), BlobError> {
        match &self.backend {
            BlobBackend::Directory(directory) => directory.delete(key).await,
            BlobBackend::S3(s3) => s3.delete(key).await,
        }
    }

    /// Deletes all blobs below `prefix`.
    pub async fn delete_prefix(&self, prefix: &BlobPrefix) -> Result<(), BlobError> {
        match &self.backend {
            BlobBackend::Directory(directory) => directory.delete_prefix(prefix).await,
            BlobBackend::S3(s3) => s3.delete_prefix(prefix).await,
        }
    }

    /// A URL that lets its bearer download the blob from the object store for `ttl` (at most seven
    /// days), under that file name. `None` without an object store: the server then serves the blob
    /// itself.
    pub fn presign(
        &self,
        key: &BlobKey,
        filename: &str,
        content_type: &str,
        ttl: Duration,
    ) -> Result<Option<String>, BlobError> {
        match &self.backend {
            BlobBackend::Directory(_) => Ok(None),
            BlobBackend::S3(s3) => s3.presign(key, filename, content_type, ttl).map(Some),
        }
    }

    /// Aborts unfinished multipart uploads that are older than this; returns their number. A
    /// running process does so periodically. A directory has none: opening it removes them.
    pub async fn abort_unfinished(&self, older_than: Duration) -> Result<usize, BlobError> {
        match &self.backend {
            BlobBackend::Directory(_) => Ok(0),
            BlobBackend::S3(s3) => s3.abort_unfinished(older_than).await,
        }
    }

    /// Checks that the backend is usable now. Returns within seconds.
    pub async fn ping(&self) -> Result<(), BlobError> {
        match &self.backend {
            BlobBackend::Directory(directory) => directory.ping().await,
            BlobBackend::S3(s3) => s3.ping().await,
        }
    }
}

impl BlobReader {
    /// The same bytes with verification: the read that would return the last bytes fails when the
    /// whole stream does not have this hash.
    pub fn verified(self, sha256: &str) -> BlobReader {
        let stream = VerifiedStream::new(self.stream, self.size, sha256.to_owned());
        BlobReader { size: self.size, stream: Box::pin(stream) }
    }

    /// Reads the stream into memory; an error when it is longer than `max` bytes.
    pub async fn into_bytes(self, max: u64) -> Result<Bytes, BlobError> {
        if self.size > max {
            return Err(BlobError::TooLarge { size: self.size, max });
        }
        let mut bytes = Vec::with_capacity(usize::try_from(self.size).unwrap_or(0));
        let read = self
            .stream
            .take(self.size)
            .read_to_end(&mut bytes)
            .await
            .map_err(BlobError::io("read a blob"))?;
        if read as u64 == self.size { Ok(bytes.into()) } else { Err(BlobError::Interrupted) }
    }
}
