//! Files, including the artifacts of executions. Their bytes are blobs.

use serde::Serialize;
use uuid::Uuid;

use crate::db::Tx;
use crate::page::time_cursor;
use crate::row::Row;
use crate::sql::{Arg, Sql, sql};
use crate::{Lease, Micros, Store, StoreError, TenantId};

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileRow {
    pub id: Uuid,
    pub tenant: TenantId,
    pub execution_id: Option<Uuid>,
    pub session_id: Option<String>,
    /// For artifacts a relative path that the skill chose: data, never used as a path by the host.
    pub name: String,
    pub content_type: String,
    pub size_bytes: i64,
    pub sha256: String,
    pub blob_key: String,
    pub version: i32,
    /// The id of the first version, if this is a later one.
    pub parent_id: Option<Uuid>,
    pub created_at: Micros,
    pub updated_at: Micros,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewFile {
    pub id: Uuid,
    pub name: String,
    pub content_type: String,
    pub size_bytes: i64,
    pub sha256: String,
    pub blob_key: String,
}

impl FileRow {
    /// For `PageRequest::after`, to continue after this row.
    pub fn cursor(&self) -> String {
        time_cursor(self.created_at, self.id)
    }

    /// The id of the first version of this file.
    pub fn first_id(&self) -> Uuid {
        self.parent_id.unwrap_or(self.id)
    }

    pub(crate) fn from_row(row: &Row) -> Result<FileRow, StoreError> {
        Ok(FileRow {
            id: row.parse("id")?,
            tenant: row.parse("tenant")?,
            execution_id: row.parse_opt("execution_id")?,
            session_id: row.get("session_id")?,
            name: row.get("name")?,
            content_type: row.get("content_type")?,
            size_bytes: row.get("size_bytes")?,
            sha256: row.get("sha256")?,
            blob_key: row.get("blob_key")?,
            version: row.number("version")?,
            parent_id: row.parse_opt("parent_id")?,
            created_at: row.get("created_at")?,
            updated_at: row.get("updated_at")?,
        })
    }
}

pub(crate) const COLUMNS: &str = "id, tenant, execution_id, session_id, name, content_type, size_bytes, sha256, \
    blob_key, version, parent_id, created_at, updated_at";

impl Store {
    /// The artifacts of an execution, sorted by name.
    pub async fn list_execution_files(
        &self,
        tenant: &TenantId,
        execution_id: Uuid,
    ) -> Result<Vec<FileRow>, StoreError> {
        let select = select_artifacts(tenant, execution_id).push(" ORDER BY name");
        let rows = self.db.read(select).await?;
        rows.iter().map(FileRow::from_row).collect()
    }

    pub async fn get_execution_file(
        &self,
        tenant: &TenantId,
        execution_id: Uuid,
        name: &str,
    ) -> Result<Option<FileRow>, StoreError> {
        let select = select_artifacts(tenant, execution_id).push_arg(" AND name = ", name);
        let row = self.db.read_one(select).await?;
        row.as_ref().map(FileRow::from_row).transpose()
    }
}

/// The artifacts of an execution. Later versions of them were uploaded and are not artifacts.
fn select_artifacts(tenant: &TenantId, execution_id: Uuid) -> Sql<'_> {
    sql("SELECT ")
        .push(COLUMNS)
        .push_arg(" FROM files WHERE tenant = ", tenant)
        .push_arg(" AND execution_id = ", execution_id)
        .push(" AND parent_id IS NULL")
}

/// Inserts an execution's artifacts in the transaction that finishes it.
pub(crate) async fn insert_artifacts(
    tx: &mut Tx,
    lease: &Lease,
    files: &[NewFile],
    now: Micros,
) -> Result<(), StoreError> {
    // Both databases limit the number of placeholders; 200 rows of eleven stay far below.
    for chunk in files.chunks(200) {
        let rows = chunk.iter().map(|file| {
            [
                Arg::from(file.id),
                Arg::from(&lease.tenant),
                Arg::from(lease.execution_id),
                Arg::from(&file.name),
                Arg::from(&file.content_type),
                Arg::from(file.size_bytes),
                Arg::from(&file.sha256),
                Arg::from(&file.blob_key),
                Arg::from(1),
                Arg::from(now),
                Arg::from(now),
            ]
        });
        let insert = sql("INSERT INTO files (id, tenant, execution_id, name, content_type, \
             size_bytes, sha256, blob_key, version, created_at, updated_at) VALUES ")
        .push_rows(rows);
        let inserted = tx.write(insert).await;
        inserted.map_err(|error| error.or_conflict("two artifacts have the same name"))?;
    }
    Ok(())
}
