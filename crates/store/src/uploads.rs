//! Files that people upload, their later versions, and the notes that keep sight of blobs without a
//! file.
//!
//! Blobs are not known here. Whoever writes one notes its key first, and the note goes when the
//! file's row comes; a row that goes leaves a note instead. So whatever dies in between, a key is
//! always in one of the two places.

use uuid::Uuid;

use crate::db::Tx;
use crate::files::{COLUMNS, FileRow};
use crate::sql::{Sql, sql};
use crate::{Micros, NewFile, PageRequest, Store, StoreError, TenantId, now};

/// What became of an upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AddFileResult {
    File(Box<FileRow>),
    /// It would be a version of a file that does not exist.
    NoSuchFile,
    /// The tenant may not keep that many bytes in files.
    OverQuota {
        used_bytes: i64,
        limit_bytes: i64,
    },
    /// Its note is gone: it took so long that its blob counts as left behind.
    TooLate,
}

/// What a tenant uploaded, and how much it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileQuota {
    pub used_bytes: i64,
    pub limit_bytes: i64,
}

/// Which files to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileFilter {
    pub session_id: Option<String>,
    pub execution_id: Option<Uuid>,
}

/// A file that was deleted, with its versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeletedFile {
    /// Noted, and to be removed now.
    pub blob_keys: Vec<String>,
}

impl Store {
    pub async fn get_file(
        &self,
        tenant: &TenantId,
        id: Uuid,
    ) -> Result<Option<FileRow>, StoreError> {
        let row = self.db.read_one(one(tenant, id)).await?;
        row.as_ref().map(FileRow::from_row).transpose()
    }

    /// Every version of every file, the newest first.
    pub async fn list_files(
        &self,
        tenant: &TenantId,
        filter: &FileFilter,
        page: &PageRequest,
    ) -> Result<Vec<FileRow>, StoreError> {
        let select = of_tenant(tenant)
            .push_some(" AND session_id = ", filter.session_id.as_deref())
            .push_some(" AND execution_id = ", filter.execution_id);
        let rows = self.db.read(page.newest_first(select)?).await?;
        rows.iter().map(FileRow::from_row).collect()
    }

    /// All versions of the file that this is one of, the newest first; none when there is no such
    /// file.
    pub async fn list_file_versions(
        &self,
        tenant: &TenantId,
        id: Uuid,
    ) -> Result<Vec<FileRow>, StoreError> {
        let Some(file) = self.get_file(tenant, id).await? else { return Ok(Vec::new()) };
        let select = of_tenant(tenant)
            .push_arg(" AND (id = ", file.first_id())
            .push_arg(" OR parent_id = ", file.first_id())
            .push(") ORDER BY version DESC");
        let rows = self.db.read(select).await?;
        rows.iter().map(FileRow::from_row).collect()
    }

    /// What the tenant keeps in files, if it has a limit of its own for them.
    pub async fn file_quota(&self, tenant: &TenantId) -> Result<Option<FileQuota>, StoreError> {
        let mut tx = self.db.begin().await?;
        file_quota(&mut tx, tenant).await
    }

    /// Notes a blob that is about to be stored.
    pub async fn add_pending_blob(
        &self,
        tenant: &TenantId,
        blob_key: &str,
    ) -> Result<(), StoreError> {
        self.db.write(note(tenant, blob_key, now())).await.map(drop)
    }

    /// Adds a file, or a version of one, whose blob was noted and is stored. `StorageFull` when the
    /// tenant may not store that much.
    pub async fn add_file(
        &self,
        tenant: &TenantId,
        new: &NewFile,
        session_id: Option<&str>,
        version_of: Option<Uuid>,
    ) -> Result<AddFileResult, StoreError> {
        let mut tx = self.db.begin().await?;
        // Whoever adds a file of this tenant waits here for the others, or two could take the same
        // room.
        let storage = self.enforce_storage(&mut tx, tenant).await?;
        if let Some(FileQuota { used_bytes, limit_bytes }) = file_quota(&mut tx, tenant).await?
            && used_bytes.saturating_add(new.size_bytes) > limit_bytes
        {
            return Ok(AddFileResult::OverQuota { used_bytes, limit_bytes });
        }
        let first = match version_of {
            Some(id) => match first_version(&mut tx, tenant, id, self.db.for_update()).await? {
                Some(first) => Some(first),
                None => return Ok(AddFileResult::NoSuchFile),
            },
            None => None,
        };
        if tx.write(forget(tenant, &new.blob_key)).await? == 0 {
            return Ok(AddFileResult::TooLate);
        }
        let row = match &first {
            Some(first) => next_version(&mut tx, first, new).await?,
            None => uploaded(tenant, new, session_id),
        };
        tx.write(insert(&row)).await?;
        storage.verify(&mut tx).await?;
        tx.commit().await?;
        Ok(AddFileResult::File(Box::new(row)))
    }

    /// Deletes a version, or the whole file when it is the first one. What they had in blobs is
    /// noted for removal, and so is `archive`, in which an execution's artifact lies a second time.
    pub async fn delete_file(
        &self,
        tenant: &TenantId,
        id: Uuid,
        archive: Option<&str>,
    ) -> Result<Option<DeletedFile>, StoreError> {
        let mut tx = self.db.begin().await?;
        let Some(row) = tx.one(one(tenant, id).push(self.db.for_update())).await? else {
            return Ok(None);
        };
        let file = FileRow::from_row(&row)?;
        let versions =
            sql("DELETE FROM files WHERE tenant = $1 AND parent_id = $2 RETURNING blob_key");
        let rows = tx.all(versions.bind(tenant).bind(id)).await?;
        let mut blob_keys: Vec<String> =
            rows.iter().map(|row| row.get("blob_key")).collect::<Result<_, _>>()?;
        tx.write(sql("DELETE FROM files WHERE tenant = $1 AND id = $2").bind(tenant).bind(id))
            .await?;
        blob_keys.push(file.blob_key);
        if let (None, Some(execution_id), Some(archive)) =
            (file.parent_id, file.execution_id, archive)
        {
            let update =
                sql("UPDATE executions SET archive_removed = TRUE WHERE tenant = $1 AND id = $2");
            tx.write(update.bind(tenant).bind(execution_id)).await?;
            blob_keys.push(archive.to_owned());
        }
        for blob_key in &blob_keys {
            tx.write(note(tenant, blob_key, 0)).await?;
        }
        self.record(&mut tx, "file.delete", id, serde_json::json!({ "name": file.name })).await?;
        tx.commit().await?;
        Ok(Some(DeletedFile { blob_keys }))
    }

    /// Blobs noted before this time: what they were to become is not there, or not any more.
    pub async fn pending_blobs(
        &self,
        noted_before: Micros,
        limit: i64,
    ) -> Result<Vec<(TenantId, String)>, StoreError> {
        let select = sql(
            "SELECT tenant, blob_key FROM loose_blobs WHERE noted_at < $1 ORDER BY noted_at LIMIT $2",
        );
        let rows = self.db.read(select.bind(noted_before).bind(limit)).await?;
        rows.iter().map(|row| Ok((row.parse("tenant")?, row.get("blob_key")?))).collect()
    }

    /// Drops the note of a blob that is gone.
    pub async fn delete_pending_blob(
        &self,
        tenant: &TenantId,
        blob_key: &str,
    ) -> Result<(), StoreError> {
        self.db.write(forget(tenant, blob_key)).await.map(drop)
    }
}

fn of_tenant(tenant: &TenantId) -> Sql<'_> {
    sql("SELECT ").push(COLUMNS).push_arg(" FROM files WHERE tenant = ", tenant)
}

fn one(tenant: &TenantId, id: Uuid) -> Sql<'_> {
    of_tenant(tenant).push_arg(" AND id = ", id)
}

fn note<'a>(tenant: &'a TenantId, blob_key: &'a str, noted_at: Micros) -> Sql<'a> {
    sql("INSERT INTO loose_blobs (blob_key, tenant, noted_at) VALUES ($1, $2, $3) \
         ON CONFLICT (blob_key) DO UPDATE SET noted_at = excluded.noted_at")
    .bind(blob_key)
    .bind(tenant)
    .bind(noted_at)
}

fn forget<'a>(tenant: &'a TenantId, blob_key: &'a str) -> Sql<'a> {
    sql("DELETE FROM loose_blobs WHERE blob_key = $1 AND tenant = $2").bind(blob_key).bind(tenant)
}

/// What the tenant uploaded, and may, if it has a quota.
async fn file_quota(tx: &mut Tx, tenant: &TenantId) -> Result<Option<FileQuota>, StoreError> {
    let quota = sql("SELECT max_file_bytes FROM tenants WHERE id = $1").bind(tenant);
    let row = tx.one(quota).await?.ok_or(StoreError::NotFound)?;
    let Some(limit_bytes) = row.get::<Option<i64>>("max_file_bytes")? else { return Ok(None) };
    let used = sql("SELECT CAST(COALESCE(SUM(size_bytes), 0) AS BIGINT) AS used FROM files \
         WHERE tenant = $1 AND (execution_id IS NULL OR parent_id IS NOT NULL)")
    .bind(tenant);
    let row = tx.one(used).await?.ok_or(StoreError::NotFound)?;
    Ok(Some(FileQuota { used_bytes: row.get("used")?, limit_bytes }))
}

/// The first version of the file that this is one of, held until the transaction ends.
async fn first_version(
    tx: &mut Tx,
    tenant: &TenantId,
    id: Uuid,
    lock: &'static str,
) -> Result<Option<FileRow>, StoreError> {
    let Some(row) = tx.one(one(tenant, id)).await? else { return Ok(None) };
    let first = FileRow::from_row(&row)?.first_id();
    let row = tx.one(one(tenant, first).push(lock)).await?;
    row.as_ref().map(FileRow::from_row).transpose()
}

/// A version keeps the name of the first one and belongs where it belongs.
async fn next_version(tx: &mut Tx, first: &FileRow, new: &NewFile) -> Result<FileRow, StoreError> {
    let newest = sql("SELECT COALESCE(MAX(version), 1) AS version FROM files WHERE parent_id = $1")
        .bind(first.id);
    let row = tx.one(newest).await?.ok_or(StoreError::NotFound)?;
    Ok(FileRow {
        execution_id: first.execution_id,
        name: first.name.clone(),
        version: row.number::<i32>("version")? + 1,
        parent_id: Some(first.id),
        ..uploaded(&first.tenant, new, first.session_id.as_deref())
    })
}

fn uploaded(tenant: &TenantId, new: &NewFile, session_id: Option<&str>) -> FileRow {
    let now = now();
    FileRow {
        id: new.id,
        tenant: tenant.clone(),
        execution_id: None,
        session_id: session_id.map(str::to_owned),
        name: new.name.clone(),
        content_type: new.content_type.clone(),
        size_bytes: new.size_bytes,
        sha256: new.sha256.clone(),
        blob_key: new.blob_key.clone(),
        version: 1,
        parent_id: None,
        created_at: now,
        updated_at: now,
    }
}

fn insert(row: &FileRow) -> Sql<'_> {
    sql("INSERT INTO files (id, tenant, execution_id, session_id, name, content_type, size_bytes, sha256, blob_key, \
         version, parent_id, created_at, updated_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)")
    .bind(row.id)
    .bind(&row.tenant)
    .bind(row.execution_id)
    .bind(row.session_id.as_deref())
    .bind(&row.name)
    .bind(&row.content_type)
    .bind(row.size_bytes)
    .bind(&row.sha256)
    .bind(&row.blob_key)
    .bind(i64::from(row.version))
    .bind(row.parent_id)
    .bind(row.created_at)
    .bind(row.updated_at)
}
