//! Pending archives: skill archives in blob storage that may belong to no skill.
//!
//! A row in `loose_archives` exists from before an archive is uploaded until its skill is stored,
//! and from the deletion of its last skill until the archive is removed. Servers may upload and
//! remove the same digest at the same time; this row is what they agree on. A removal is a lease
//! (`removing_until`): while it is valid, an upload of the digest waits. An upload is marked by its
//! time (`noted_at`): an archive that was uploaded recently is not removed.

use crate::row::Row;
use crate::sql::{Sql, sql};
use crate::{Micros, Store, StoreError, TenantId, now};

/// An upload of an archive in progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveUpload {
    tenant: TenantId,
    digest: String,
    noted_at: Micros,
}

/// Whether an archive is still in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArchiveUse {
    /// A version of a skill has this digest.
    Published,
    /// Only an execution that has not ended has this digest.
    Needed,
    Unused,
}

impl Store {
    /// Registers an upload before the archive is written. `None` while the archive is being
    /// removed: retry, because the removal could delete what is uploaded now.
    pub async fn begin_archive_upload(
        &self,
        tenant: &TenantId,
        digest: &str,
    ) -> Result<Option<ArchiveUpload>, StoreError> {
        let noted_at = now();
        let insert = sql("INSERT INTO loose_archives (tenant, digest, noted_at, removing_until) VALUES ($1, $2, $3, 0) \
             ON CONFLICT (tenant, digest) DO UPDATE SET noted_at = excluded.noted_at \
             WHERE loose_archives.removing_until < $3")
        .bind(tenant)
        .bind(digest)
        .bind(noted_at);
        let registered = self.db.write(insert).await? > 0;
        Ok(registered.then(|| ArchiveUpload {
            tenant: tenant.clone(),
            digest: digest.to_owned(),
            noted_at,
        }))
    }

    /// Completes an upload whose skill is stored. The row stays if another upload of the same
    /// digest has registered since, or a removal has begun.
    pub async fn commit_archive_upload(&self, upload: &ArchiveUpload) -> Result<(), StoreError> {
        let delete =
            where_archive(sql("DELETE FROM loose_archives"), &upload.tenant, &upload.digest)
                .push_arg(" AND noted_at = ", upload.noted_at)
                .push(" AND removing_until = 0");
        self.db.write(delete).await.map(drop)
    }

    /// Aborts an upload: the archive may be removed from now on.
    pub async fn abort_archive_upload(&self, upload: &ArchiveUpload) -> Result<(), StoreError> {
        let update = where_archive(
            sql("UPDATE loose_archives SET noted_at = 0"),
            &upload.tenant,
            &upload.digest,
        );
        self.db.write(update.push_arg(" AND noted_at = ", upload.noted_at)).await.map(drop)
    }

    /// Acquires a lease to remove an archive. False when an upload was registered after
    /// `noted_before` or another server removes it. The holder must check `archive_use` after this
    /// call: from now on no upload of the digest can begin, so the answer stays true.
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

    /// Whether this archive is in use.
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

    /// Finishes a removal: the archive was removed, or a skill uses it again.
    pub async fn finish_archive_removal(
        &self,
        tenant: &TenantId,
        digest: &str,
    ) -> Result<(), StoreError> {
        self.db
            .write(where_archive(sql("DELETE FROM loose_archives"), tenant, digest))
            .await
            .map(drop)
    }

    /// Gives up a removal because an execution needs the archive; `pending_archives` returns it
    /// again later. Until then its bytes count towards the tenant's quota.
    pub async fn defer_archive_removal(
        &self,
        tenant: &TenantId,
        digest: &str,
        size_bytes: i64,
    ) -> Result<(), StoreError> {
        let update = sql("UPDATE loose_archives SET noted_at = 0, removing_until = 0")
            .push_arg(", size_bytes = ", size_bytes);
        self.db.write(where_archive(update, tenant, digest)).await.map(drop)
    }

    /// Archives registered before this time that no server is removing.
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
        let archive = |row: &Row| Ok((row.parse("tenant")?, row.get("digest")?));
        self.db.read(select).await?.iter().map(archive).collect()
    }
}

fn where_archive<'a>(sql: Sql<'a>, tenant: &'a TenantId, digest: &'a str) -> Sql<'a> {
    sql.push_arg(" WHERE tenant = ", tenant).push_arg(" AND digest = ", digest)
}
