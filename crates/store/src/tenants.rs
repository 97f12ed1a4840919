//! Tenants: the owners of all other objects.

use serde::Serialize;
use serde_json::json;

use crate::row::Row;
use crate::sql::{Sql, sql};
use crate::storage::delete_storage_changes;
use crate::{Micros, PageRequest, Store, StoreError, TenantId, TenantPolicy, now};

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Tenant {
    pub id: TenantId,
    pub policy: TenantPolicy,
    pub created_at: Micros,
}

impl Tenant {
    /// For `PageRequest::after`, to continue after this row.
    pub fn cursor(&self) -> String {
        self.id.to_string()
    }

    fn from_row(row: &Row) -> Result<Tenant, StoreError> {
        Ok(Tenant {
            id: row.parse("id")?,
            policy: TenantPolicy {
                versions: row.parse("versions")?,
                scan: row.parse("scan")?,
                max_concurrent: row.number_opt("max_concurrent")?,
                max_queued: row.number_opt("max_queued")?,
                rate_per_minute: row.number_opt("rate_per_minute")?,
                max_file_bytes: row.number_opt("max_file_bytes")?,
                max_stored_bytes: row.number_opt("max_stored_bytes")?,
                weight: row.number("weight")?,
                signatures: row.parse("signatures")?,
            },
            created_at: row.get("created_at")?,
        })
    }
}

const INSERT: &str = "INSERT INTO tenants (id, versions, max_concurrent, max_queued, rate_per_minute, weight, \
    max_file_bytes, signatures, scan, max_stored_bytes, created_at, served_at) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 0) \
    ON CONFLICT (id) DO NOTHING";

const SELECT: &str = "SELECT id, versions, max_concurrent, max_queued, rate_per_minute, weight, max_file_bytes, signatures, \
    scan, max_stored_bytes, created_at FROM tenants";

/// Deleted together with a tenant.
const DELETE_TRUST: [&str; 4] = [
    "DELETE FROM signatures WHERE tenant = $1",
    "DELETE FROM newest_signed WHERE tenant = $1",
    "DELETE FROM revoked_digests WHERE tenant = $1",
    "DELETE FROM trusted_keys WHERE tenant = $1",
];

impl Store {
    /// The tenant, created with the default policy if it does not exist.
    pub async fn ensure_tenant(&self, id: &TenantId) -> Result<Tenant, StoreError> {
        if let Some(tenant) = self.get_tenant(id).await? {
            return Ok(tenant);
        }
        match self.create_tenant(id, TenantPolicy::default()).await {
            // A concurrent request created it first.
            Err(StoreError::Conflict(_)) => self.get_tenant(id).await?.ok_or(StoreError::NotFound),
            other => other,
        }
    }

    pub async fn create_tenant(
        &self,
        id: &TenantId,
        policy: TenantPolicy,
    ) -> Result<Tenant, StoreError> {
        let created_at = now();
        let insert = bind_policy(sql(INSERT).bind(id), &policy).bind(created_at);
        match self.write_recorded(insert, ("tenant.create", id.as_str()), json!({})).await? {
            false => Err(StoreError::Conflict("this tenant exists already")),
            true => Ok(Tenant { id: id.clone(), policy, created_at }),
        }
    }

    pub async fn get_tenant(&self, id: &TenantId) -> Result<Option<Tenant>, StoreError> {
        let row = self.db.read_one(sql(SELECT).push_arg(" WHERE id = ", id)).await?;
        row.as_ref().map(Tenant::from_row).transpose()
    }

    /// All tenants, sorted by id.
    pub async fn list_tenants(&self, page: &PageRequest) -> Result<Vec<Tenant>, StoreError> {
        let select = sql(SELECT)
            .push_optional_arg(" WHERE id > ", page.after.as_deref())
            .push(" ORDER BY id");
        let rows = self.db.read(page.limit(select)).await?;
        rows.iter().map(Tenant::from_row).collect()
    }

    /// False when there is no such tenant.
    pub async fn update_tenant_policy(
        &self,
        id: &TenantId,
        policy: &TenantPolicy,
    ) -> Result<bool, StoreError> {
        let update =
            sql("UPDATE tenants SET versions = $2, max_concurrent = $3, max_queued = $4, \
             rate_per_minute = $5, weight = $6, max_file_bytes = $7, signatures = $8, scan = $9, \
             max_stored_bytes = $10 WHERE id = $1");
        let update = bind_policy(update.bind(id), policy);
        let action = ("tenant.update", id.as_str());
        self.write_recorded(update, action, json!({ "policy": policy.set_fields() })).await
    }

    /// Deletes a tenant without skills, executions, files or active API keys. False when there is no
    /// such tenant. Its audit log stays.
    pub async fn delete_tenant(&self, id: &TenantId) -> Result<bool, StoreError> {
        let mut tx = self.db.begin().await?;
        let keys = sql("DELETE FROM keys WHERE tenant = $1 AND revoked_at IS NOT NULL").bind(id);
        tx.write(keys).await?;
        for statement in DELETE_TRUST {
            tx.write(sql(statement).bind(id)).await?;
        }
        tx.write(sql("DELETE FROM skill_reviews WHERE tenant = $1").bind(id)).await?;
        tx.write(delete_storage_changes(id)).await?;
        let tenant = sql("DELETE FROM tenants WHERE id = $1").bind(id);
        let deleted = tx.write(tenant).await.map_err(|error| match error {
            // Here a foreign key violation means that the tenant still owns something.
            StoreError::NotFound => StoreError::Conflict(
                "this tenant still owns keys, skills, executions or files; remove them first",
            ),
            other => other,
        })?;
        if deleted > 0 {
            self.record(&mut tx, "tenant.delete", id.as_str(), json!({})).await?;
        }
        tx.commit().await?;
        Ok(deleted > 0)
    }
}

fn bind_policy<'a>(sql: Sql<'a>, policy: &TenantPolicy) -> Sql<'a> {
    let bytes = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
    sql.bind(policy.versions)
        .bind(policy.max_concurrent.map(i64::from))
        .bind(policy.max_queued.map(i64::from))
        .bind(policy.rate_per_minute.map(i64::from))
        .bind(i64::from(policy.weight.clamp(1, TenantPolicy::MAX_WEIGHT)))
        .bind(policy.max_file_bytes.map(bytes))
        .bind(policy.signatures)
        .bind(policy.scan)
        .bind(policy.max_stored_bytes.map(bytes))
}
