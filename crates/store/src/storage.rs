//! The storage quota of a tenant: skills, files, artifacts with their archive, inputs, logs and
//! outputs.
//!
//! Triggers maintain the count (`migrations/0008_storage.*.sql`). Here it is read, and compared
//! with the limit in the transaction that adds something; a transaction that exceeds the limit is
//! rolled back.

use uuid::Uuid;

use crate::db::{Database, Tx};
use crate::row::Row;
use crate::sql::{Sql, sql};
use crate::{Store, StoreError, TenantId};

/// The stored bytes of a tenant and its quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StorageUsage {
    pub used_bytes: i64,
    /// The tenant's own limit, or the server's default.
    pub limit_bytes: Option<i64>,
}

/// An execution whose archive of artifacts has no known size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnmeasuredArchive {
    pub tenant: TenantId,
    pub execution_id: Uuid,
    pub attempt: i32,
}

/// The minimum that a result counts for, from the acceptance of the execution on. An execution
/// whose result exceeds the quota is recorded without it, and that record fits into this size.
pub const MIN_RESULT_BYTES: i64 = 8192;

/// One statement, so both terms come from one snapshot: each change is in exactly one of them.
const USAGE: &str = "SELECT max_stored_bytes, stored_bytes + CAST(COALESCE((SELECT SUM(bytes) FROM storage_changes \
     WHERE storage_changes.tenant = tenants.id), 0) AS BIGINT) AS used FROM tenants WHERE id = $1";

const RECOUNT: &str = "SELECT CAST( \
    (SELECT COALESCE(SUM(octet_length(request) + COALESCE(octet_length(input), 0) + COALESCE(octet_length(webhook), 0) \
        + CASE WHEN octet_length(logs) + COALESCE(octet_length(output), 0) + COALESCE(octet_length(error), 0) \
                + COALESCE(octet_length(detail), 0) + COALESCE(octet_length(receipt), 0) < 8192 THEN 8192 \
            ELSE octet_length(logs) + COALESCE(octet_length(output), 0) + COALESCE(octet_length(error), 0) \
                + COALESCE(octet_length(detail), 0) + COALESCE(octet_length(receipt), 0) END \
        + CASE WHEN has_archive AND NOT archive_removed THEN COALESCE(archive_bytes, 0) ELSE 0 END), 0) \
        FROM executions WHERE tenant = $1) \
    + (SELECT COALESCE(SUM(size_bytes + octet_length(description) + octet_length(scripts) + octet_length(manifest) \
        + octet_length(findings)), 0) FROM skills WHERE tenant = $1) \
    + (SELECT COALESCE(SUM(size_bytes), 0) FROM files WHERE tenant = $1) \
    + (SELECT COALESCE(SUM(size_bytes), 0) FROM loose_archives WHERE tenant = $1) \
    + (SELECT COALESCE(SUM(octet_length(text)), 0) FROM log_segments JOIN executions ON executions.id = execution_id \
        WHERE tenant = $1) AS BIGINT) AS used";

impl Store {
    /// This store with a default quota for tenants whose policy sets none.
    pub fn with_storage_limit(self, default_bytes: Option<u64>) -> Store {
        let default_storage_limit =
            default_bytes.map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX));
        Store { default_storage_limit, ..self }
    }

    /// The quota of tenants whose policy sets none.
    pub fn default_storage_limit(&self) -> Option<i64> {
        self.default_storage_limit
    }

    pub async fn storage_usage(&self, tenant: &TenantId) -> Result<StorageUsage, StoreError> {
        let row = self.db.read_one(sql(USAGE).bind(tenant)).await?;
        StorageUsage::from_row(row, self.default_storage_limit)
    }

    /// The sum over the rows themselves, which the count must equal. Reads all rows of the tenant.
    pub async fn recount_storage(&self, tenant: &TenantId) -> Result<i64, StoreError> {
        let row = self.db.read_one(sql(RECOUNT).bind(tenant)).await?;
        row.map_or(Ok(0), |row| row.get("used"))
    }

    /// Folds the change rows into the tenants' counts. On Postgres the triggers insert a row per
    /// change instead of updating the count, so that concurrent transactions of a tenant do not
    /// wait for its row. One statement per tenant: locking two tenants' rows could deadlock.
    pub async fn fold_storage_changes(&self) -> Result<(), StoreError> {
        let Database::Postgres(_) = self.db else { return Ok(()) };
        for row in
            self.db.read(sql("SELECT DISTINCT tenant FROM storage_changes LIMIT 1000")).await?
        {
            let fold = sql("WITH folded AS (DELETE FROM storage_changes WHERE tenant = $1 RETURNING bytes) \
                 UPDATE tenants SET stored_bytes = stored_bytes + (SELECT COALESCE(SUM(bytes), 0) FROM folded) \
                 WHERE id = $1")
            .bind(row.get::<&str>("tenant")?);
            self.db.write(fold).await?;
        }
        Ok(())
    }

    /// Executions that were recorded by a version that did not store the size of the archive.
    pub async fn unmeasured_archives(
        &self,
        limit: i64,
    ) -> Result<Vec<UnmeasuredArchive>, StoreError> {
        let select = sql("SELECT id, tenant, attempt FROM executions \
             WHERE has_archive AND NOT archive_removed AND archive_bytes IS NULL ORDER BY id LIMIT $1")
        .bind(limit);
        let archive = |row: &Row| {
            Ok(UnmeasuredArchive {
                tenant: row.parse("tenant")?,
                execution_id: row.parse("id")?,
                attempt: row.number("attempt")?,
            })
        };
        self.db.read(select).await?.iter().map(archive).collect()
    }

    pub async fn set_archive_bytes(
        &self,
        archive: &UnmeasuredArchive,
        bytes: i64,
    ) -> Result<(), StoreError> {
        let update =
            sql("UPDATE executions SET archive_bytes = $3 WHERE tenant = $1 AND id = $2 AND archive_bytes IS NULL")
                .bind(&archive.tenant)
                .bind(archive.execution_id)
                .bind(bytes);
        self.db.write(update).await.map(drop)
    }

    /// Starts to enforce a tenant's quota in a transaction. Locks the tenant's row: transactions
    /// that enforce the same quota run one after the other.
    pub(crate) async fn enforce_storage<'a>(
        &self,
        tx: &mut Tx,
        tenant: &'a TenantId,
    ) -> Result<StorageCheck<'a>, StoreError> {
        let lock =
            sql("SELECT id FROM tenants WHERE id = $1").bind(tenant).push(self.db.for_update());
        tx.query_one(lock).await?.ok_or(StoreError::NotFound)?;
        // A separate statement, for a new snapshot. In one statement with the lock, Postgres would
        // add the count from after the wait to change rows from before it.
        let before = read_usage(tx, tenant, self.default_storage_limit).await?;
        Ok(StorageCheck { tenant, before })
    }
}

/// The usage of a tenant before the transaction changed anything.
pub(crate) struct StorageCheck<'a> {
    tenant: &'a TenantId,
    before: StorageUsage,
}

impl StorageCheck<'_> {
    /// Fails when the transaction exceeds the quota; the caller must not commit it then. A change
    /// that frees bytes is always allowed, even if the tenant is above its quota.
    pub(crate) async fn verify(&self, tx: &mut Tx) -> Result<(), StoreError> {
        let Some(limit_bytes) = self.before.limit_bytes else { return Ok(()) };
        let used_bytes = self.before.used_bytes;
        let after = read_usage(tx, self.tenant, None).await?.used_bytes;
        match after > limit_bytes && after > used_bytes {
            true => Err(StoreError::StorageFull {
                used_bytes,
                limit_bytes,
                needed_bytes: after - used_bytes,
            }),
            false => Ok(()),
        }
    }
}

async fn read_usage(
    tx: &mut Tx,
    tenant: &TenantId,
    default: Option<i64>,
) -> Result<StorageUsage, StoreError> {
    StorageUsage::from_row(tx.query_one(sql(USAGE).bind(tenant)).await?, default)
}

/// Deletes the change rows of a deleted tenant: a new tenant with the same id must start at zero.
pub(crate) fn delete_storage_changes(tenant: &TenantId) -> Sql<'_> {
    sql("DELETE FROM storage_changes WHERE tenant = $1").bind(tenant)
}

impl StorageUsage {
    fn from_row(row: Option<Row>, default: Option<i64>) -> Result<StorageUsage, StoreError> {
        let row = row.ok_or(StoreError::NotFound)?;
        let tenant_limit: Option<i64> = row.get("max_stored_bytes")?;
        Ok(StorageUsage { used_bytes: row.get("used")?, limit_bytes: tenant_limit.or(default) })
    }
}
