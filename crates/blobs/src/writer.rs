//! Writing a blob, which is invisible until it is complete.

use std::sync::Arc;

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use crate::directory::{Directory, FileWriter};
use crate::s3::{ObjectWriter, S3};
use crate::{BlobError, BlobKey, StoredBlob};

/// Writes and hashes bytes as they arrive. Dropping it removes everything that was written.
pub struct BlobWriter {
    sha256: Sha256,
    size: u64,
    target: WriteTarget,
}

enum WriteTarget {
    File(FileWriter),
    Object(ObjectWriter),
}

impl BlobWriter {
    pub(crate) fn to_file(directory: Arc<Directory>, key: BlobKey) -> BlobWriter {
        BlobWriter::new(WriteTarget::File(FileWriter::new(directory, key)))
    }

    pub(crate) fn to_object(s3: Arc<S3>, key: BlobKey) -> BlobWriter {
        BlobWriter::new(WriteTarget::Object(ObjectWriter::new(s3, key)))
    }

    fn new(target: WriteTarget) -> BlobWriter {
        BlobWriter { sha256: Sha256::new(), size: 0, target }
    }

    /// The number of bytes written so far.
    pub fn size(&self) -> u64 {
        self.size
    }

    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), BlobError> {
        self.sha256.update(bytes);
        self.size += bytes.len() as u64;
        match &mut self.target {
            WriteTarget::File(file) => file.write(bytes).await,
            WriteTarget::Object(object) => object.write(bytes).await,
        }
    }

    /// Makes the blob visible under its key, replacing an existing one.
    pub async fn finish(self) -> Result<StoredBlob, BlobError> {
        match self.target {
            WriteTarget::File(file) => file.finish().await?,
            WriteTarget::Object(object) => object.finish().await?,
        }
        Ok(StoredBlob { size: self.size, sha256: HEXLOWER.encode(&self.sha256.finalize()) })
    }
}
