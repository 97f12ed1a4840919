//! Files that people upload: streamed to blobs under a note, and gone from there when they are
//! deleted.

use blobs::{BlobKey, BlobWriter};
use store::{Actor, AddFileResult, DeletedFile, FileRow, Micros, NewFile, TenantId};
use uuid::Uuid;

use crate::budget::Permit;
use crate::runner::Runner;
use crate::{Quota, RunError, archive_key, content_type};

/// A blob that was noted this long ago and has no file will not get one any more.
const UPLOAD_MICROS: Micros = 3_600_000_000;
/// How many blobs without a file are removed in one go.
const BATCH: i64 = 100;
const MAX_NAME_BYTES: usize = 255;
const MAX_SESSION_BYTES: usize = 255;
const MAX_CONTENT_TYPE_BYTES: usize = 127;

/// What a new file is called and belongs to. All of it is data from outside.
#[derive(Debug, Clone, Default)]
pub struct FileLabel {
    pub name: String,
    /// Told from the name when there is none, or none that could stand in a header.
    pub content_type: Option<String>,
    pub session_id: Option<String>,
}

/// A file on its way in. Dropped before its end, it leaves nothing but a note that runs out.
pub struct Upload<'a> {
    runner: &'a Runner,
    tenant: TenantId,
    id: Uuid,
    key: BlobKey,
    writer: BlobWriter,
    size: u64,
    /// For what the writer keeps in memory.
    _memory: Permit,
    quotas: Vec<Quota>,
}

impl Runner {
    pub async fn begin_upload(&self, tenant: &TenantId) -> Result<Upload<'_>, RunError> {
        let memory = self.reserve(tenant, self.blobs.writer_bytes()).await?;
        self.expect_free_disk()?;
        let quotas = self.quotas(tenant).await?;
        let id = Uuid::now_v7();
        let key = BlobKey::file(tenant.as_str(), id);
        self.store.add_pending_blob(tenant, key.as_str()).await?;
        let writer = self.blobs.writer(&key);
        Ok(Upload {
            runner: self,
            tenant: tenant.clone(),
            id,
            key,
            writer,
            size: 0,
            _memory: memory,
            quotas,
        })
    }

    /// Deletes a version of a file, or the whole file when it is the first one; false when there is
    /// none. Of an execution's artifact, the archive of all its files goes too, for it holds the
    /// same bytes.
    pub async fn delete_file(
        &self,
        actor: Option<&Actor>,
        tenant: &TenantId,
        id: Uuid,
    ) -> Result<bool, RunError> {
        let Some(file) = self.store.get_file(tenant, id).await? else { return Ok(false) };
        let archive = match file.execution_id.filter(|_| file.parent_id.is_none()) {
            Some(execution_id) => self
                .store
                .get_execution_summary(tenant, execution_id)
                .await?
                .as_ref()
                .and_then(archive_key),
            None => None,
        };
        let deleted = self
            .store_for(actor)
            .delete_file(tenant, id, archive.as_ref().map(BlobKey::as_str))
            .await?;
        let Some(DeletedFile { blob_keys }) = deleted else { return Ok(false) };
        for blob_key in blob_keys {
            self.remove_loose(tenant, &blob_key).await;
        }
        Ok(true)
    }

    /// Removes blobs of files that were deleted, and of uploads that never came to an end.
    pub(crate) async fn remove_loose_blobs(&self, now: Micros) {
        match self.store.pending_blobs(now - UPLOAD_MICROS, BATCH).await {
            Ok(loose) => {
                for (tenant, blob_key) in loose {
                    self.remove_loose(&tenant, &blob_key).await;
                }
            }
            Err(error) => tracing::warn!(%error, "looking for blobs without a file failed"),
        }
    }

    /// A failure leaves the note, and with it another try.
    async fn remove_loose(&self, tenant: &TenantId, blob_key: &str) {
        let removed = async {
            let key = BlobKey::parse(blob_key)?;
            if key.belongs_to(tenant.as_str()) {
                self.blobs.delete(&key).await?;
            }
            self.store.delete_pending_blob(tenant, blob_key).await?;
            Ok::<(), RunError>(())
        };
        if let Err(error) = removed.await {
            tracing::error!(%tenant, blob_key, %error, "a blob is left without a file for now");
        }
    }
}

impl Upload<'_> {
    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), RunError> {
        self.size += bytes.len() as u64;
        let limit_bytes = self.runner.config.max_file_bytes;
        if self.size > limit_bytes {
            return Err(RunError::FileTooLarge { limit_bytes });
        }
        if let Some(quota) = self.quotas.iter().find(|quota| !quota.has_room_for(self.size)) {
            return Err(RunError::OverQuota(Quota { needed_bytes: self.size, ..*quota }));
        }
        Ok(self.writer.write(bytes).await?)
    }

    /// The upload as a new file.
    pub async fn finish(self, label: FileLabel) -> Result<FileRow, RunError> {
        let FileLabel { name, content_type, session_id } = label;
        check_name(&name)?;
        if session_id
            .as_ref()
            .is_some_and(|id| id.len() > MAX_SESSION_BYTES || id.chars().any(char::is_control))
        {
            return Err(RunError::InvalidRequest(format!(
                "session_id must have at most {MAX_SESSION_BYTES} bytes and no control characters"
            )));
        }
        self.add(name, content_type, session_id.as_deref(), None).await?.ok_or(RunError::NoSuchFile)
    }

    /// The upload as the next version of a file; `None` when there is no such file.
    pub async fn finish_version(
        self,
        of: &FileRow,
        content_type: Option<String>,
    ) -> Result<Option<FileRow>, RunError> {
        self.add(of.name.clone(), content_type, None, Some(of.id)).await
    }

    async fn add(
        self,
        name: String,
        content_type: Option<String>,
        session_id: Option<&str>,
        version_of: Option<Uuid>,
    ) -> Result<Option<FileRow>, RunError> {
        let Upload { runner, tenant, id, key, writer, .. } = self;
        let stored = writer.finish().await?;
        let new = NewFile {
            id,
            content_type: content_type
                .filter(|text| is_plain(text))
                .unwrap_or_else(|| content_type::of(&name).to_owned()),
            name,
            size_bytes: i64::try_from(stored.size).unwrap_or(i64::MAX),
            sha256: stored.sha256,
            blob_key: key.as_str().to_owned(),
        };
        let added = runner.store.add_file(&tenant, &new, session_id, version_of).await;
        if let Ok(AddFileResult::File(file)) = added {
            return Ok(Some(*file));
        }
        runner.remove_loose(&tenant, key.as_str()).await;
        match added? {
            AddFileResult::OverQuota { used_bytes, limit_bytes } => Err(RunError::OverQuota(
                Quota::new(Quota::FILES, used_bytes, limit_bytes, new.size_bytes),
            )),
            AddFileResult::TooLate => {
                Err(RunError::InvalidRequest("the upload took longer than an hour".to_owned()))
            }
            AddFileResult::File(_) | AddFileResult::NoSuchFile => Ok(None),
        }
    }
}

/// A name is data, but it becomes one in a sandbox and in people's directories.
fn check_name(name: &str) -> Result<(), RunError> {
    let plain = !name.contains(['/', '\\'])
        && !name.chars().any(char::is_control)
        && !matches!(name, "." | "..");
    match plain && (1..=MAX_NAME_BYTES).contains(&name.len()) {
        true => Ok(()),
        false => Err(RunError::InvalidRequest(format!(
            "the file's name must have 1 to {MAX_NAME_BYTES} bytes and no slash, backslash or control character"
        ))),
    }
}

/// Whether a content type could stand in a header.
fn is_plain(text: &str) -> bool {
    (1..=MAX_CONTENT_TYPE_BYTES).contains(&text.len())
        && text.contains('/')
        && text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
}
