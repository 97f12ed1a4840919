//! Uploaded files and their later versions. Their blobs are registered in `pending_blobs` before
//! they are written.

use uuid::Uuid;

use crate::db::Tx;
use crate::files::{COLUMNS, FileRow};
use crate::pending_blobs::{insert_pending_blob, remove_pending_blob};
use crate::sql::{Sql, sql};
use crate::{NewFile, PageRequest, Store, StoreError, TenantId, now};

/// The result of `add_file`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AddFileResult {
    File(Box<FileRow>),
    /// The file of which this would be a version does not exist.
    NoSuchFile,
    /// The tenant's file quota would be exceeded.
    OverQuota {
        used_bytes: i64,
        limit_bytes: i64,
    },
    /// The upload took so long that the sweep has removed its blob.
    TooLate,
}

/// The file quota of a tenant and its use.
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
    /// Registered as pending, to be removed by the caller.
    pub blob_keys: Vec<String>,
}

impl Store {
    pub async fn get_file(
        &self,
        tenant: &TenantId,
        id: Uuid,
    ) -> Result<Option<FileRow>, StoreError> {
        let row = self.db.read_one(select_file(tenant, id)).await?;
        row.as_ref().map(FileRow::from_row).transpose()
    }

    /// All versions of all files, newest first.
    pub async fn list_files(
        &self,
        tenant: &TenantId,
        filter: &FileFilter,
        page: &PageRequest,
    ) -> Result<Vec<FileRow>, StoreError> {
        let select = select_files(tenant)
            .push_optional_arg(" AND session_id = ", filter.session_id.as_deref())
            .push_optional_arg(" AND execution_id = ", filter.execution_id);
        let rows = self.db.read(page.newest_first(select)?).await?;
        rows.iter().map(FileRow::from_row).collect()
    }

    /// All versions of the file that `id` is a version of, newest first; empty when there is none.
    pub async fn list_file_versions(
        &self,
        tenant: &TenantId,
        id: Uuid,
    ) -> Result<Vec<FileRow>, StoreError> {
        let Some(file) = self.get_file(tenant, id).await? else { return Ok(Vec::new()) };
        let select = select_files(tenant)
            .push_arg(" AND (id = ", file.first_id())
            .push_arg(" OR parent_id = ", file.first_id())
            .push(") ORDER BY version DESC");
        let rows = self.db.read(select).await?;
        rows.iter().map(FileRow::from_row).collect()
    }

    /// The tenant's file quota, if it has one.
    pub async fn file_quota(&self, tenant: &TenantId) -> Result<Option<FileQuota>, StoreError> {
        let mut tx = self.db.begin().await?;
        file_quota(&mut tx, tenant).await
    }

    /// Adds a file, or a version of one, whose blob is registered and written. `StorageFull` when
    /// the storage quota is exceeded.
    pub async fn add_file(
        &self,
        tenant: &TenantId,
        new: &NewFile,
        session_id: Option<&str>,
        version_of: Option<Uuid>,
    ) -> Result<AddFileResult, StoreError> {
        let mut tx = self.db.begin().await?;
        // Locks the tenant's row: concurrent uploads of one tenant are checked one after the other,
        // so they cannot exceed a quota together.
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
        // In the same transaction as the insert of the row, and only if the key is still pending:
        // otherwise the sweep has taken it, and the row would refer to a removed blob.
        if tx.write(remove_pending_blob(tenant, &new.blob_key)).await? == 0 {
            return Ok(AddFileResult::TooLate);
        }
        let row = match &first {
            Some(first) => next_version(&mut tx, first, new).await?,
            None => new_row(tenant, new, session_id),
        };
        tx.write(insert(&row)).await?;
        storage.verify(&mut tx).await?;
        tx.commit().await?;
        Ok(AddFileResult::File(Box::new(row)))
    }

    /// Deletes a version, or the whole file when it is the first one. Its blobs are registered as
    /// pending, and so is `archive`, which holds a copy of an execution's artifact.
    pub async fn delete_file(
        &self,
        tenant: &TenantId,
        id: Uuid,
        archive: Option<&str>,
    ) -> Result<Option<DeletedFile>, StoreError> {
        let mut tx = self.db.begin().await?;
        let Some(row) = tx.query_one(select_file(tenant, id).push(self.db.for_update())).await?
        else {
            return Ok(None);
        };
        let file = FileRow::from_row(&row)?;
        let versions =
            sql("DELETE FROM files WHERE tenant = $1 AND parent_id = $2 RETURNING blob_key");
        let rows = tx.query(versions.bind(tenant).bind(id)).await?;
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
            tx.write(insert_pending_blob(tenant, blob_key, 0)).await?;
        }
        self.record(&mut tx, "file.delete", id, serde_json::json!({ "name": file.name })).await?;
        tx.commit().await?;
        Ok(Some(DeletedFile { blob_keys }))
    }
}

fn select_files(tenant: &TenantId) -> Sql<'_> {
    sql("SELECT ").push(COLUMNS).push_arg(" FROM files WHERE tenant = ", tenant)
}

fn select_file(tenant: &TenantId, id: Uuid) -> Sql<'_> {
    select_files(tenant).push_arg(" AND id = ", id)
}

/// The tenant's file quota, if it has one. Artifacts count only when they have later versions.
async fn file_quota(tx: &mut Tx, tenant: &TenantId) -> Result<Option<FileQuota>, StoreError> {
    let quota = sql("SELECT max_file_bytes FROM tenants WHERE id = $1").bind(tenant);
    let row = tx.query_one(quota).await?.ok_or(StoreError::NotFound)?;
    let Some(limit_bytes) = row.get::<Option<i64>>("max_file_bytes")? else { return Ok(None) };
    let used = sql("SELECT CAST(COALESCE(SUM(size_bytes), 0) AS BIGINT) AS used FROM files \
         WHERE tenant = $1 AND (execution_id IS NULL OR parent_id IS NOT NULL)")
    .bind(tenant);
    let row = tx.query_one(used).await?.ok_or(StoreError::NotFound)?;
    Ok(Some(FileQuota { used_bytes: row.get("used")?, limit_bytes }))
}

/// The first version of the file that `id` is a version of. Its row stays locked until the
/// transaction ends, so that concurrent uploads get different version numbers.
async fn first_version(
    tx: &mut Tx,
    tenant: &TenantId,
    id: Uuid,
    lock: &'static str,
) -> Result<Option<FileRow>, StoreError> {
    let Some(row) = tx.query_one(select_file(tenant, id)).await? else { return Ok(None) };
    let first = FileRow::from_row(&row)?.first_id();
    let row = tx.query_one(select_file(tenant, first).push(lock)).await?;
    row.as_ref().map(FileRow::from_row).transpose()
}

/// A version has the name, the execution and the session of the first one.
async fn next_version(tx: &mut Tx, first: &FileRow, new: &NewFile) -> Result<FileRow, StoreError> {
    let newest = sql("SELECT COALESCE(MAX(version), 1) AS version FROM files WHERE parent_id = $1")
        .bind(first.id);
    let row = tx.query_one(newest).await?.ok_or(StoreError::NotFound)?;
    Ok(FileRow {
        execution_id: first.execution_id,
        name: first.name.clone(),
        version: row.number::<i32>("version")? + 1,
        parent_id: Some(first.id),
        ..new_row(&first.tenant, new, first.session_id.as_deref())
    })
}

fn new_row(tenant: &TenantId, new: &NewFile, session_id: Option<&str>) -> FileRow {
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
