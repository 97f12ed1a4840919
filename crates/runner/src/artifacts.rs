//! A run's files on their way to blobs: each one apart and all of them in one gzip tar, written at
//! the same time. Memory holds one chunk, never a file. Until the execution is recorded nothing
//! here may outlive a failure.

use blobs::{BlobError, BlobKey, BlobPrefix, BlobWriter, Blobs};
use catalogue::content_type_of;
use sandbox::SinkError;
use store::{Execution, FileRow, Lease, NewFile, TenantId};
use uuid::Uuid;

use crate::RunError;
use crate::failpoint::{Point, reach};
use crate::gzip_tar::GzipTar;
use crate::runner::Runner;

pub struct Artifacts {
    blobs: Blobs,
    tenant: TenantId,
    execution_id: Uuid,
    attempt: i64,
    open: Option<Open>,
    archive: Option<Archive>,
    files: Vec<NewFile>,
}

/// What a run left in blobs.
#[derive(Default)]
pub struct Stored {
    pub files: Vec<NewFile>,
    /// The size of the archive of all of them.
    pub archive_bytes: Option<i64>,
}

/// The file whose bytes are coming in.
struct Open {
    name: String,
    key: BlobKey,
    writer: BlobWriter,
    missing_bytes: u64,
}

struct Archive {
    tar: GzipTar,
    writer: BlobWriter,
}

impl Artifacts {
    /// For the attempt that this lease is for.
    pub fn new(blobs: Blobs, lease: &Lease) -> Artifacts {
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

    pub async fn start(&mut self, path: &str, size: u64) -> Result<(), SinkError> {
        if self.archive.is_none() {
            let key =
                BlobKey::archive(self.tenant.as_str(), place(self.execution_id, self.attempt));
            let writer = self.blobs.writer(&key);
            self.archive = Some(Archive { tar: GzipTar::new(), writer });
        }
        let key =
            BlobKey::artifact(self.tenant.as_str(), place(self.execution_id, self.attempt), path);
        let writer = self.blobs.writer(&key);
        self.open = Some(Open { name: path.to_owned(), key, writer, missing_bytes: size });
        self.archive()?.tar.start(path, size).map_err(archive_failed)
    }

    pub async fn chunk(&mut self, bytes: &[u8]) -> Result<(), SinkError> {
        let open = self.open.as_mut().ok_or_else(out_of_order)?;
        let taken = open.missing_bytes.checked_sub(bytes.len() as u64);
        open.missing_bytes = taken.ok_or_else(out_of_order)?;
        open.writer.write(bytes).await.map_err(blob_failed)?;
        let archive = self.archive()?;
        archive.tar.chunk(bytes).map_err(archive_failed)?;
        archive.flush().await
    }

    pub async fn end(&mut self) -> Result<(), SinkError> {
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

    /// Completes the archive and hands over the files; on failure nothing is left of either.
    pub async fn finish(mut self) -> Result<Stored, SinkError> {
        match self.complete().await {
            Ok(archive_bytes) => Ok(Stored { files: self.files, archive_bytes }),
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

    /// Removes what was written so far.
    pub async fn discard(self) {
        let Artifacts { blobs, tenant, execution_id, attempt, open, archive, .. } = self;
        drop((open, archive));
        discard(&blobs, &tenant, execution_id, attempt).await;
    }

    fn archive(&mut self) -> Result<&mut Archive, SinkError> {
        self.archive.as_mut().ok_or_else(out_of_order)
    }
}

impl Archive {
    async fn flush(&mut self) -> Result<(), SinkError> {
        let ready = self.tar.take();
        if ready.is_empty() { Ok(()) } else { self.writer.write(&ready).await.map_err(blob_failed) }
    }
}

/// Removes whatever an attempt of an execution put into blobs.
pub async fn discard(blobs: &Blobs, tenant: &TenantId, execution_id: Uuid, attempt: i64) {
    if let Err(error) = remove(blobs, tenant, execution_id, attempt).await {
        tracing::error!(%tenant, %execution_id, %error, "removing an execution's blobs failed");
    }
}

pub async fn remove(
    blobs: &Blobs,
    tenant: &TenantId,
    execution_id: Uuid,
    attempt: i64,
) -> Result<(), BlobError> {
    reach(Point::Remove);
    blobs.delete_prefix(&BlobPrefix::execution(tenant.as_str(), place(execution_id, attempt))).await
}

impl Runner {
    /// The archive that holds a copy of this artifact; `None` when the file is none, or a later
    /// version of one.
    pub async fn archive_with_copy(&self, file: &FileRow) -> Result<Option<BlobKey>, RunError> {
        let Some(execution_id) = file.execution_id.filter(|_| file.parent_id.is_none()) else {
            return Ok(None);
        };
        let execution = self.store.get_execution_summary(&file.tenant, execution_id).await?;
        Ok(execution.as_ref().and_then(archive_key))
    }
}

/// The archive of all files that an ended execution left, if it left any.
pub fn archive_key(execution: &Execution) -> Option<BlobKey> {
    let key = || key_of_archive(&execution.tenant, execution.id, i64::from(execution.attempt));
    (execution.has_archive && !execution.archive_removed).then(key)
}

pub fn key_of_archive(tenant: &TenantId, execution_id: Uuid, attempt: i64) -> BlobKey {
    BlobKey::archive(tenant.as_str(), place(execution_id, attempt))
}

/// Each attempt has its own place, so that a worker that lost its lease and wakes up late neither
/// overwrites nor removes what the next one wrote.
fn place(execution_id: Uuid, attempt: i64) -> String {
    match attempt {
        ..=1 => execution_id.to_string(),
        later => format!("{execution_id}-{later}"),
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
