//! A blob being written: invisible until it is whole.

use std::sync::Arc;

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use crate::directory::{Directory, NewFile};
use crate::s3::{NewObject, S3};
use crate::{BlobError, Key, Stored};

/// Takes bytes as they come and hashes them on the way; dropping it leaves nothing behind.
pub struct Writer {
    sha256: Sha256,
    size: u64,
    target: Target,
}

enum Target {
    File(NewFile),
    Object(NewObject),
}

impl Writer {
    pub(crate) fn to_file(directory: Arc<Directory>, key: Key) -> Writer {
        Writer::new(Target::File(NewFile::new(directory, key)))
    }

    pub(crate) fn to_object(s3: Arc<S3>, key: Key) -> Writer {
        Writer::new(Target::Object(NewObject::new(s3, key)))
    }

    fn new(target: Target) -> Writer {
        Writer { sha256: Sha256::new(), size: 0, target }
    }

    /// How many bytes were written so far.
    pub fn size(&self) -> u64 {
        self.size
    }

    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), BlobError> {
        self.sha256.update(bytes);
        self.size += bytes.len() as u64;
        match &mut self.target {
            Target::File(file) => file.write(bytes).await,
            Target::Object(object) => object.write(bytes).await,
        }
    }

    /// Publishes the blob under its key, replacing what was there, and tells what it is.
    pub async fn finish(self) -> Result<Stored, BlobError> {
        match self.target {
            Target::File(file) => file.finish().await?,
            Target::Object(object) => object.finish().await?,
        }
        Ok(Stored { size: self.size, sha256: HEXLOWER.encode(&self.sha256.finalize()) })
    }
}
