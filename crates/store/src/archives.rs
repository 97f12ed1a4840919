//! Notes of archives that may belong to no skill, so that none is lost sight of and none is removed
//! while another server counts on it. The archives themselves are blobs, which this crate does not
//! know.

use crate::row::Row;
use crate::sql::{Sql, sql};
use crate::{Micros, Store, StoreError, TenantId, now};

/// An upload under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveUpload {
    tenant: TenantId,
    digest: String,
    noted_at: Micros,
}

/// Who still needs an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArchiveUse {
    /// A version of a skill has it.
    Published,
    /// Only an execution that was accepted and has not ended.
    Needed,
    Unused,
}

impl Store {
    /// Notes that an archive is about to be stored. Nothing when a removal of it is under way: look
    /// again.
    pub async fn begin_archive_upload(
        &self,
        tenant: &TenantId,
        digest: &str,
    ) -> Result<Option<ArchiveUpload>, StoreError> {
        let noted_at = now();
        let note = sql("INSERT INTO loose_archives (tenant, digest, noted_at, removing_until) VALUES ($1, $2, $3, 0) \
             ON CONFLICT (tenant, digest) DO UPDATE SET noted_at = excluded.noted_at \
             WHERE loose_archives.removing_until < $3")
        .bind(tenant)
        .bind(digest)
        .bind(noted_at);
        let noted = self.db.write(note).await? > 0;
        Ok(noted.then(|| ArchiveUpload {
            tenant: tenant.clone(),
            digest: digest.to_owned(),
            noted_at,
        }))
    }

    /// Drops the note of an upload whose skill is stored; a later upload of the same content keeps
    /// its own.
    pub async fn commit_archive_upload(&self, note: &ArchiveUpload) -> Result<(), StoreError> {
        let delete = of(sql("DELETE FROM loose_archives"), &note.tenant, &note.digest)
            .push_arg(" AND noted_at = ", note.noted_at)
            .push(" AND removing_until = 0");
        self.db.write(delete).await.map(drop)
    }

    /// Turns the note of an upload that came to nothing into one of an archive to be removed.
    pub async fn abort_archive_upload(&self, note: &ArchiveUpload) -> Result<(), StoreError> {
        let update = of(sql("UPDATE loose_archives SET noted_at = 0"), &note.tenant, &note.digest);
        self.db.write(update.push_arg(" AND noted_at = ", note.noted_at)).await.map(drop)
    }

    /// The right to remove an archive for a while, unless an upload of it was noted after
    /// `noted_before` or somebody else is at it. Whoever has it looks whether the archive is in
    /// use, and only then.
    pub async fn claim_archive_removal(
        &self,
        tenant: &TenantId,
        digest: &str,
        noted_before: Micros,
        lease_ms: i64,
    ) -> Result<bool, StoreError> {
        let now = now();
        let claim =
            sql("INSERT INTO loose_archives (tenant, digest, noted_at, removing_until) VALUES ($1, $2, 0, $3) \
             ON CONFLICT (tenant, digest) DO UPDATE SET removing_until = excluded.removing_until \
             WHERE loose_archives.noted_at < $4 AND loose_archives.removing_until < $5")
            .bind(tenant)
            .bind(digest)
            .bind(now + lease_ms * 1000)
            .bind(noted_before)
            .bind(now);
        Ok(self.db.write(claim).await? > 0)
    }

    /// Who needs this archive.
    pub async fn archive_use(
        &self,
        tenant: &TenantId,
        digest: &str,
    ) -> Result<ArchiveUse, StoreError> {
        let select = sql("SELECT \
             EXISTS (SELECT 1 FROM skills WHERE tenant = $1 AND digest = $2) AS published, \
             (EXISTS (SELECT 1 FROM executions WHERE tenant = $1 AND digest = $2 AND status = 'queued') \
              OR EXISTS (SELECT 1 FROM executions WHERE tenant = $1 AND digest = $2 AND status = 'running')) AS needed")
        .bind(tenant)
        .bind(digest);
        let Some(row) = self.db.read_one(select).await? else { return Err(StoreError::NotFound) };
        Ok(match (row.get("published")?, row.get("needed")?) {
            (true, _) => ArchiveUse::Published,
            (false, true) => ArchiveUse::Needed,
            (false, false) => ArchiveUse::Unused,
        })
    }

    /// Ends a removal: the archive is gone, or belongs to a skill after all.
    pub async fn finish_archive_removal(
        &self,
        tenant: &TenantId,
        digest: &str,
    ) -> Result<(), StoreError> {
        self.db.write(of(sql("DELETE FROM loose_archives"), tenant, digest)).await.map(drop)
    }

    /// Ends a removal that has to wait for an execution; `loose_archives` names it again. Until
    /// then its bytes count as the tenant's.
    pub async fn defer_archive_removal(
        &self,
        tenant: &TenantId,
        digest: &str,
        size_bytes: i64,
    ) -> Result<(), StoreError> {
        let update = sql("UPDATE loose_archives SET noted_at = 0, removing_until = 0")
            .push_arg(", size_bytes = ", size_bytes);
        self.db.write(of(update, tenant, digest)).await.map(drop)
    }

    /// Archives noted before this time that nobody is removing.
    pub async fn pending_archives(
        &self,
        noted_before: Micros,
        limit: i64,
    ) -> Result<Vec<(TenantId, String)>, StoreError> {
        let select = sql("SELECT tenant, digest FROM loose_archives \
             WHERE noted_at < $1 AND removing_until < $2 ORDER BY noted_at LIMIT $3")
        .bind(noted_before)
        .bind(now())
        .bind(limit);
        let name = |row: &Row| Ok((row.parse("tenant")?, row.get("digest")?));
        self.db.read(select).await?.iter().map(name).collect()
    }
}

fn of<'a>(sql: Sql<'a>, tenant: &'a TenantId, digest: &'a str) -> Sql<'a> {
    sql.push_arg(" WHERE tenant = ", tenant).push_arg(" AND digest = ", digest)
}
