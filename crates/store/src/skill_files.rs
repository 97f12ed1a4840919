//! The index of the files in skill archives. The archives are blobs, which this crate does not know.

use crate::row::Row;
use crate::sql::{Sql, sql};
use crate::{Store, StoreError, TenantId};

/// One file of a skill's archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillFileRow {
    pub path: String,
    /// The offset of its first byte in the archive.
    pub position: u64,
    pub size_bytes: u64,
    pub executable: bool,
    /// Whether it is valid UTF-8.
    pub is_text: bool,
    /// Lower-case hexadecimal.
    pub sha256: String,
}

/// Rows per INSERT. With eight placeholders each, this is far below the limit of both databases.
const ROWS_PER_INSERT: usize = 200;

impl SkillFileRow {
    fn from_row(row: &Row) -> Result<SkillFileRow, StoreError> {
        Ok(SkillFileRow {
            path: row.get("path")?,
            position: row.number("position")?,
            size_bytes: row.number("size_bytes")?,
            executable: row.get("executable")?,
            is_text: row.get("is_text")?,
            sha256: row.get("sha256")?,
        })
    }
}

impl Store {
    /// Stores the index of an archive. Does nothing when it is stored already, or when no skill has
    /// this digest.
    pub async fn put_skill_files(
        &self,
        tenant: &TenantId,
        digest: &str,
        files: &[SkillFileRow],
    ) -> Result<(), StoreError> {
        let mut tx = self.db.begin().await?;
        let published = sql("SELECT digest FROM skills WHERE tenant = $1 AND digest = $2 LIMIT 1");
        if tx.query_one(published.bind(tenant).bind(digest)).await?.is_none() {
            return Ok(());
        }
        for rows in files.chunks(ROWS_PER_INSERT) {
            tx.write(insert(tenant, digest, rows)).await?;
        }
        tx.commit().await
    }

    /// All files of an archive, sorted by path; empty when it was never indexed.
    pub async fn list_skill_files(
        &self,
        tenant: &TenantId,
        digest: &str,
    ) -> Result<Vec<SkillFileRow>, StoreError> {
        let rows = self.db.read(select(tenant, digest).push(" ORDER BY path")).await?;
        rows.iter().map(SkillFileRow::from_row).collect()
    }

    pub async fn get_skill_file(
        &self,
        tenant: &TenantId,
        digest: &str,
        path: &str,
    ) -> Result<Option<SkillFileRow>, StoreError> {
        let row = self.db.read_one(select(tenant, digest).push_arg(" AND path = ", path)).await?;
        row.as_ref().map(SkillFileRow::from_row).transpose()
    }

    /// The number of files of an archive; zero when it was never indexed.
    pub async fn count_skill_files(
        &self,
        tenant: &TenantId,
        digest: &str,
    ) -> Result<u64, StoreError> {
        let count =
            sql("SELECT COUNT(*) AS files FROM skill_files WHERE tenant = $1 AND digest = $2");
        let row =
            self.db.read_one(count.bind(tenant).bind(digest)).await?.ok_or(StoreError::NotFound)?;
        row.number("files")
    }

    /// Deletes the index of an archive that was removed.
    pub async fn delete_skill_files(
        &self,
        tenant: &TenantId,
        digest: &str,
    ) -> Result<(), StoreError> {
        let delete = sql("DELETE FROM skill_files WHERE tenant = $1 AND digest = $2")
            .bind(tenant)
            .bind(digest);
        self.db.write(delete).await.map(drop)
    }
}

fn select<'a>(tenant: &'a TenantId, digest: &'a str) -> Sql<'a> {
    sql("SELECT path, position, size_bytes, executable, is_text, sha256 FROM skill_files")
        .push_arg(" WHERE tenant = ", tenant)
        .push_arg(" AND digest = ", digest)
}

fn insert<'a>(tenant: &'a TenantId, digest: &'a str, files: &'a [SkillFileRow]) -> Sql<'a> {
    let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let row = |file: &'a SkillFileRow| {
        [
            tenant.into(),
            digest.into(),
            file.path.as_str().into(),
            number(file.position).into(),
            number(file.size_bytes).into(),
            file.executable.into(),
            file.is_text.into(),
            file.sha256.as_str().into(),
        ]
    };
    sql("INSERT INTO skill_files (tenant, digest, path, position, size_bytes, executable, is_text, sha256) VALUES ")
        .push_rows(files.iter().map(row))
        .push(" ON CONFLICT (tenant, digest, path) DO NOTHING")
}
