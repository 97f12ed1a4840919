//! Pending blobs: keys of blobs that no file row refers to.
//!
//! Blob storage and the database share no transaction. A key is therefore stored here before its
//! blob is written, and removed in the transaction that inserts the file row; deleting a file row
//! stores its key here again. At every moment a blob is referred to by a file row or by a pending
//! key, so whatever crashes, a sweep finds the blobs that belong to nothing.

use crate::sql::{Sql, sql};
use crate::{Micros, Store, StoreError, TenantId, now};

impl Store {
    /// Registers a blob before it is written.
    pub async fn add_pending_blob(
        &self,
        tenant: &TenantId,
        blob_key: &str,
    ) -> Result<(), StoreError> {
        self.db.write(insert_pending_blob(tenant, blob_key, now())).await.map(drop)
    }

    /// Blobs registered before this time. Their upload has failed, or their file was deleted.
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

    /// Unregisters a blob that was removed.
    pub async fn delete_pending_blob(
        &self,
        tenant: &TenantId,
        blob_key: &str,
    ) -> Result<(), StoreError> {
        self.db.write(remove_pending_blob(tenant, blob_key)).await.map(drop)
    }
}

pub(crate) fn insert_pending_blob<'a>(
    tenant: &'a TenantId,
    blob_key: &'a str,
    noted_at: Micros,
) -> Sql<'a> {
    sql("INSERT INTO loose_blobs (blob_key, tenant, noted_at) VALUES ($1, $2, $3) \
         ON CONFLICT (blob_key) DO UPDATE SET noted_at = excluded.noted_at")
    .bind(blob_key)
    .bind(tenant)
    .bind(noted_at)
}

pub(crate) fn remove_pending_blob<'a>(tenant: &'a TenantId, blob_key: &'a str) -> Sql<'a> {
    sql("DELETE FROM loose_blobs WHERE blob_key = $1 AND tenant = $2").bind(blob_key).bind(tenant)
}
