//! Files that users upload. The bytes are streamed to a blob, which has a note until its row exists;
//! a deleted file leaves such a note until its blob is removed.

use admission::Permit;
use blobs::{BlobKey, BlobWriter};
use store::{Actor, AddFileResult, DeletedFile, FileRow, Micros, NewFile, TenantId};
use uuid::Uuid;

use crate::{Catalogue, CatalogueError, StorageQuota, content_type_of};

/// A blob that was noted this long ago and has no file will never get one.
const UPLOAD_TIMEOUT_MICROS: Micros = 3_600_000_000;
/// How many blobs without a file are removed per call.
const BATCH: i64 = 100;
const MAX_NAME_BYTES: usize = 255;
const MAX_SESSION_BYTES: usize = 255;
const MAX_CONTENT_TYPE_BYTES: usize = 127;

/// Name and properties of a new file. All of it is untrusted input.
#[derive(Debug, Clone, Default)]
pub struct FileMetadata {
    pub name: String,
    /// Derived from the name when it is missing or could not be sent in a header.
    pub content_type: Option<String>,
    pub session_id: Option<String>,
}

/// A file whose bytes are arriving. When it is dropped before `finish`, only a note is left, which
/// expires.
pub struct PendingUpload<'a> {
    catalogue: &'a Catalogue,
    tenant: TenantId,
    id: Uuid,
    key: BlobKey,
    writer: BlobWriter,
    size: u64,
    /// For the buffers of the writer.
    _memory: Permit,
    quotas: Vec<StorageQuota>,
}

impl Catalogue {
    /// Starts an upload. The bytes follow by `PendingUpload::write`.
    pub async fn begin_upload(
        &self,
        tenant: &TenantId,
    ) -> Result<PendingUpload<'_>, CatalogueError> {
        let memory = self.resources.memory.reserve(tenant, self.blobs.writer_bytes()).await?;
        self.resources.disk.check()?;
        let quotas = self.storage_quotas(tenant).await?;
        let id = Uuid::now_v7();
        let key = BlobKey::file(tenant.as_str(), id);
        // The note first: if this process crashes between blob and row, the note is what finds the
        // blob again.
        self.store.add_pending_blob(tenant, key.as_str()).await?;
        let writer = self.blobs.writer(&key);
        Ok(PendingUpload {
            catalogue: self,
            tenant: tenant.clone(),
            id,
            key,
            writer,
            size: 0,
            _memory: memory,
            quotas,
        })
    }

    /// The limits on what this tenant stores, with what it stores now.
    async fn storage_quotas(&self, tenant: &TenantId) -> Result<Vec<StorageQuota>, CatalogueError> {
        let files = self.store.file_quota(tenant).await?.map(|quota| {
            StorageQuota::new(StorageQuota::FILES, quota.used_bytes, quota.limit_bytes, 0)
        });
        let usage = self.store.storage_usage(tenant).await?;
        let stored = usage.limit_bytes.map(|limit_bytes| {
            StorageQuota::new(StorageQuota::STORED, usage.used_bytes, limit_bytes, 0)
        });
        Ok(files.into_iter().chain(stored).collect())
    }

    /// Deletes a version of a file, or all versions when it is the first one; false when there is
    /// none. `archive` is another blob that holds the same bytes and is deleted with the file.
    pub async fn delete_file(
        &self,
        actor: Option<&Actor>,
        tenant: &TenantId,
        id: Uuid,
        archive: Option<&BlobKey>,
    ) -> Result<bool, CatalogueError> {
        let deleted =
            self.store_for(actor).delete_file(tenant, id, archive.map(BlobKey::as_str)).await?;
        let Some(DeletedFile { blob_keys }) = deleted else { return Ok(false) };
        for blob_key in blob_keys {
            self.remove_blob(tenant, &blob_key).await;
        }
        Ok(true)
    }

    /// Removes blobs of files that were deleted, and of uploads that failed.
    pub async fn remove_unused_blobs(&self, now: Micros) {
        match self.store.pending_blobs(now - UPLOAD_TIMEOUT_MICROS, BATCH).await {
            Ok(blobs) => {
                for (tenant, blob_key) in blobs {
                    self.remove_blob(&tenant, &blob_key).await;
                }
            }
            Err(error) => tracing::warn!(%error, "looking for blobs without a file failed"),
        }
    }

    /// Removes a noted blob. A failure keeps the note, so that the removal is retried.
    async fn remove_blob(&self, tenant: &TenantId, blob_key: &str) {
        let removed = async {
            let key = BlobKey::parse(blob_key)?;
            // A row that names a blob of another tenant must not make us delete it.
            if key.belongs_to(tenant.as_str()) {
                self.blobs.delete(&key).await?;
            }
            self.store.delete_pending_blob(tenant, blob_key).await?;
            Ok::<(), CatalogueError>(())
        };
        if let Err(error) = removed.await {
            tracing::error!(%tenant, blob_key, %error, "a blob without a file was not removed yet");
        }
    }
}

impl PendingUpload<'_> {
    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), CatalogueError> {
        self.size += bytes.len() as u64;
        let limit_bytes = self.catalogue.config.max_file_bytes;
        if self.size > limit_bytes {
            return Err(CatalogueError::FileTooLarge { limit_bytes });
        }
        // Checked on the way, so that an upload over its quota stops early. The database checks
        // again when the row is inserted, because parallel uploads do not see each other here.
        if let Some(quota) = self.quotas.iter().find(|quota| !quota.fits(self.size)) {
            let needed_bytes = self.size;
            return Err(CatalogueError::OverQuota(StorageQuota { needed_bytes, ..*quota }));
        }
        Ok(self.writer.write(bytes).await?)
    }

    /// Stores the upload as a new file.
    pub async fn finish(self, metadata: FileMetadata) -> Result<FileRow, CatalogueError> {
        let FileMetadata { name, content_type, session_id } = metadata;
        check_name(&name)?;
        let unusable =
            |id: &String| id.len() > MAX_SESSION_BYTES || id.chars().any(char::is_control);
        if session_id.as_ref().is_some_and(unusable) {
            return Err(CatalogueError::InvalidFile(format!(
                "session_id must have at most {MAX_SESSION_BYTES} bytes and no control characters"
            )));
        }
        let added = self.add(name, content_type, session_id.as_deref(), None).await?;
        added.ok_or(CatalogueError::NoSuchFile)
    }

    /// Stores the upload as the next version of a file; `None` when there is no such file.
    pub async fn finish_version(
        self,
        file: &FileRow,
        content_type: Option<String>,
    ) -> Result<Option<FileRow>, CatalogueError> {
        self.add(file.name.clone(), content_type, None, Some(file.id)).await
    }

    async fn add(
        self,
        name: String,
        content_type: Option<String>,
        session_id: Option<&str>,
        version_of: Option<Uuid>,
    ) -> Result<Option<FileRow>, CatalogueError> {
        let PendingUpload { catalogue, tenant, id, key, writer, .. } = self;
        let stored = writer.finish().await?;
        let new = NewFile {
            id,
            content_type: content_type
                .filter(|text| fits_header(text))
                .unwrap_or_else(|| content_type_of(&name).to_owned()),
            name,
            size_bytes: i64::try_from(stored.size).unwrap_or(i64::MAX),
            sha256: stored.sha256,
            blob_key: key.as_str().to_owned(),
        };
        let added = catalogue.store.add_file(&tenant, &new, session_id, version_of).await;
        if let Ok(AddFileResult::File(file)) = added {
            return Ok(Some(*file));
        }
        catalogue.remove_blob(&tenant, key.as_str()).await;
        match added? {
            AddFileResult::OverQuota { used_bytes, limit_bytes } => {
                let files = StorageQuota::FILES;
                let quota = StorageQuota::new(files, used_bytes, limit_bytes, new.size_bytes);
                Err(CatalogueError::OverQuota(quota))
            }
            AddFileResult::TooLate => {
                Err(CatalogueError::InvalidFile("the upload took longer than an hour".to_owned()))
            }
            AddFileResult::File(_) | AddFileResult::NoSuchFile => Ok(None),
        }
    }
}

/// A name becomes a file name in a sandbox and in the directories of users, so it must not be a
/// path.
fn check_name(name: &str) -> Result<(), CatalogueError> {
    let plain = !name.contains(['/', '\\'])
        && !name.chars().any(char::is_control)
        && !matches!(name, "." | "..");
    match plain && (1..=MAX_NAME_BYTES).contains(&name.len()) {
        true => Ok(()),
        false => Err(CatalogueError::InvalidFile(format!(
            "the file's name must have 1 to {MAX_NAME_BYTES} bytes and no slash, backslash or control character"
        ))),
    }
}

/// Whether a content type can be sent in a header.
fn fits_header(text: &str) -> bool {
    (1..=MAX_CONTENT_TYPE_BYTES).contains(&text.len())
        && text.contains('/')
        && text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
}
