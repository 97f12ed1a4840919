//! Writes a run's files to blobs as they arrive: each one by itself, and all of them in one gzip
//! tar. Memory holds one chunk, never a file. Until the execution is recorded, nothing of it may
//! outlive a failure.

use blobs::{BlobError, BlobKey, BlobWriter, Blobs};
use sandbox::SinkError;
use store::{Lease, NewFile, TenantId};
use uuid::Uuid;

use super::gzip_tar::GzipTar;
use super::{attempt_dir, discard};
use crate::failpoint::{Point, reach};
use catalogue::content_type_of;

pub(crate) struct Artifacts {
    blobs: Blobs,
    tenant: TenantId,
    execution_id: Uuid,
    attempt: i64,
    open: Option<OpenFile>,
    archive: Option<OpenArchive>,
    files: Vec<NewFile>,
}

/// The artifacts of a run, complete in blobs.
#[derive(Default)]
pub(crate) struct StoredArtifacts {
    pub files: Vec<NewFile>,
    /// The size of the archive of all of them.
    pub archive_bytes: Option<i64>,
}

/// The file that is being received.
struct OpenFile {
    name: String,
    key: BlobKey,
    writer: BlobWriter,
    missing_bytes: u64,
}

struct OpenArchive {
    tar: GzipTar,
    writer: BlobWriter,
}

impl Artifacts {
    /// For the attempt that this lease belongs to.
    pub(crate) fn new(blobs: Blobs, lease: &Lease) -> Artifacts {
        let Lease { tenant, execution_id, token: attempt, .. } = lease.clone();
        Artifacts {
            blobs,
            tenant,
            execution_id,
            attempt,
            open: None,
            archive: None,
            files: Vec::new(),
        }
    }

    pub(crate) async fn start(&mut self, path: &str, size: u64) -> Result<(), SinkError> {
        if self.archive.is_none() {
            let key = BlobKey::archive(
                self.tenant.as_str(),
                attempt_dir(self.execution_id, self.attempt),
            );
            let writer = self.blobs.writer(&key);
            self.archive = Some(OpenArchive { tar: GzipTar::new(), writer });
        }
        let key = BlobKey::artifact(
            self.tenant.as_str(),
            attempt_dir(self.execution_id, self.attempt),
            path,
        );
        let writer = self.blobs.writer(&key);
        self.open = Some(OpenFile { name: path.to_owned(), key, writer, missing_bytes: size });
        self.archive()?.tar.start(path, size).map_err(archive_failed)
    }

    pub(crate) async fn chunk(&mut self, bytes: &[u8]) -> Result<(), SinkError> {
        let open = self.open.as_mut().ok_or_else(out_of_order)?;
        let taken = open.missing_bytes.checked_sub(bytes.len() as u64);
        open.missing_bytes = taken.ok_or_else(out_of_order)?;
        open.writer.write(bytes).await.map_err(blob_failed)?;
        let archive = self.archive()?;
        archive.tar.chunk(bytes).map_err(archive_failed)?;
        archive.flush().await
    }

    pub(crate) async fn end(&mut self) -> Result<(), SinkError> {
        let open =
            self.open.take().filter(|open| open.missing_bytes == 0).ok_or_else(out_of_order)?;
        let stored = open.writer.finish().await.map_err(blob_failed)?;
        self.files.push(NewFile {
            id: Uuid::now_v7(),
            content_type: content_type_of(&open.name).to_owned(),
            name: open.name,
            size_bytes: i64::try_from(stored.size).map_err(|_| out_of_order())?,
            sha256: stored.sha256,
            blob_key: open.key.as_str().to_owned(),
        });
        reach(Point::Upload);
        let archive = self.archive()?;
        archive.tar.end().map_err(archive_failed)?;
        archive.flush().await
    }

    /// Completes the archive and returns the files; on failure nothing is left of either.
    pub(crate) async fn finish(mut self) -> Result<StoredArtifacts, SinkError> {
        match self.complete().await {
            Ok(archive_bytes) => Ok(StoredArtifacts { files: self.files, archive_bytes }),
            Err(error) => {
                self.discard().await;
                Err(error)
            }
        }
    }

    async fn complete(&mut self) -> Result<Option<i64>, SinkError> {
        if self.open.is_some() {
            return Err(out_of_order());
        }
        let Some(mut archive) = self.archive.take() else { return Ok(None) };
        let last = archive.tar.finish().map_err(archive_failed)?;
        archive.writer.write(&last).await.map_err(blob_failed)?;
        let stored = archive.writer.finish().await.map_err(blob_failed)?;
        i64::try_from(stored.size).map(Some).map_err(|_| out_of_order())
    }

    /// Removes everything written so far.
    pub(crate) async fn discard(self) {
        let Artifacts { blobs, tenant, execution_id, attempt, open, archive, .. } = self;
        drop((open, archive));
        discard(&blobs, &tenant, execution_id, attempt).await;
    }

    fn archive(&mut self) -> Result<&mut OpenArchive, SinkError> {
        self.archive.as_mut().ok_or_else(out_of_order)
    }
}

impl OpenArchive {
    async fn flush(&mut self) -> Result<(), SinkError> {
        let ready = self.tar.take();
        if ready.is_empty() { Ok(()) } else { self.writer.write(&ready).await.map_err(blob_failed) }
    }
}

fn blob_failed(error: BlobError) -> SinkError {
    SinkError(format!("storing an artifact failed: {error}"))
}

fn archive_failed(error: std::io::Error) -> SinkError {
    SinkError(format!("writing the artifacts' archive failed: {error}"))
}

fn out_of_order() -> SinkError {
    SinkError("artifact bytes came out of order".to_owned())
}
