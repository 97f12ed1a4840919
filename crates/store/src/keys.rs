//! API keys. The store never gets the secret itself, only its keyed hash.

use serde::Serialize;
use serde_json::json;
use uuid::Uuid;

use crate::page::time_cursor;
use crate::row::Row;
use crate::sql::sql;
use crate::string_enum::string_enum;
use crate::{Micros, PageRequest, Store, StoreError, TenantId, now};

string_enum! {
    /// What a key may be used for.
    Scope, "scope" {
        Execute = "execute",
        Read = "read",
        Publish = "publish",
        Admin = "admin",
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ApiKey {
    pub id: Uuid,
    pub tenant: TenantId,
    pub name: String,
    /// The first characters of the secret, so that its owner can recognize it in a list.
    pub prefix: String,
    pub scopes: Vec<Scope>,
    /// Whether the key may act for any tenant.
    pub service: bool,
    /// The key restriction: the only skills it may run; all when absent.
    pub skills: Option<Vec<String>>,
    pub expires_at: Option<Micros>,
    pub revoked_at: Option<Micros>,
    pub created_at: Micros,
}

#[derive(Debug, Clone)]
pub struct NewApiKey {
    pub tenant: TenantId,
    pub name: String,
    pub prefix: String,
    pub hash: String,
    pub scopes: Vec<Scope>,
    pub service: bool,
    pub skills: Option<Vec<String>>,
    pub expires_at: Option<Micros>,
}

impl ApiKey {
    /// For `PageRequest::after`, to continue after this row.
    pub fn cursor(&self) -> String {
        time_cursor(self.created_at, self.id)
    }

    /// Whether the key authenticates now: neither revoked nor expired.
    pub fn is_active(&self, now: Micros) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|end| now < end)
    }

    fn from_row(row: &Row) -> Result<ApiKey, StoreError> {
        Ok(ApiKey {
            id: row.parse("id")?,
            tenant: row.parse("tenant")?,
            name: row.get("name")?,
            prefix: row.get("prefix")?,
            scopes: row.json("scopes")?,
            service: row.get("service")?,
            skills: row.json_opt("skills")?,
            expires_at: row.get("expires_at")?,
            revoked_at: row.get("revoked_at")?,
            created_at: row.get("created_at")?,
        })
    }
}

const SELECT: &str = "SELECT id, tenant, name, prefix, scopes, service, skills, expires_at, \
    revoked_at, created_at FROM keys";

impl Store {
    pub async fn insert_key(&self, new: &NewApiKey) -> Result<ApiKey, StoreError> {
        let key = ApiKey {
            id: Uuid::now_v7(),
            tenant: new.tenant.clone(),
            name: new.name.clone(),
            prefix: new.prefix.clone(),
            scopes: new.scopes.clone(),
            service: new.service,
            skills: new.skills.clone(),
            expires_at: new.expires_at,
            revoked_at: None,
            created_at: now(),
        };
        let insert = sql("INSERT INTO keys (id, tenant, name, prefix, hash, scopes, service, \
             skills, expires_at, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)")
        .bind(key.id)
        .bind(&key.tenant)
        .bind(&key.name)
        .bind(&key.prefix)
        .bind(&new.hash)
        .bind(serde_json::json!(key.scopes).to_string())
        .bind(key.service)
        .bind(key.skills.as_ref().map(|names| serde_json::json!(names).to_string()))
        .bind(key.expires_at)
        .bind(key.created_at);
        let mut tx = self.db.begin().await?;
        tx.write(insert).await.map_err(|error| error.or_conflict("this key exists already"))?;
        let detail = json!({ "name": key.name, "scopes": key.scopes, "service": key.service });
        self.record(&mut tx, "key.create", key.id, detail).await?;
        tx.commit().await?;
        Ok(key)
    }

    /// The key with this hash, also a revoked or expired one: the caller must check `is_active`. It
    /// takes no tenant, because the key identifies the tenant.
    pub async fn find_key(&self, hash: &str) -> Result<Option<ApiKey>, StoreError> {
        let select = sql(SELECT).push_arg(" WHERE hash = ", hash);
        let row = self.db.read_one(select).await?;
        row.as_ref().map(ApiKey::from_row).transpose()
    }

    pub async fn get_key(&self, tenant: &TenantId, id: Uuid) -> Result<Option<ApiKey>, StoreError> {
        let select = sql(SELECT).push_arg(" WHERE tenant = ", tenant).push_arg(" AND id = ", id);
        let row = self.db.read_one(select).await?;
        row.as_ref().map(ApiKey::from_row).transpose()
    }

    /// Newest first; service keys only with `service_keys`.
    pub async fn list_keys(
        &self,
        tenant: &TenantId,
        service_keys: bool,
        page: &PageRequest,
    ) -> Result<Vec<ApiKey>, StoreError> {
        let select = sql(SELECT).push_arg(" WHERE tenant = ", tenant);
        let select = select.push(if service_keys { "" } else { " AND NOT service" });
        self.db.read(page.newest_first(select)?).await?.iter().map(ApiKey::from_row).collect()
    }

    /// Whether any tenant has an active service key with the scope `admin`.
    pub async fn has_active_service_key(&self) -> Result<bool, StoreError> {
        let select = sql(SELECT).push(" WHERE service AND revoked_at IS NULL");
        let select = select.push_arg(" AND (expires_at IS NULL OR expires_at > ", now()).push(")");
        for row in self.db.read(select).await? {
            if ApiKey::from_row(&row)?.scopes.contains(&Scope::Admin) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// False when the tenant has no such key. Revoking again keeps the first time.
    pub async fn revoke_key(&self, tenant: &TenantId, id: Uuid) -> Result<bool, StoreError> {
        let update = sql("UPDATE keys SET revoked_at = COALESCE(revoked_at, $3) \
             WHERE tenant = $1 AND id = $2")
        .bind(tenant)
        .bind(id)
        .bind(now());
        let action = ("key.revoke", id.to_string());
        self.write_recorded(update, action, json!({})).await
    }

    /// Counts all keys, revoked ones too: a server whose last key was revoked must not take its
    /// next start for the first one and create a new key.
    pub async fn count_keys(&self) -> Result<i64, StoreError> {
        let row = self.db.read_one(sql("SELECT COUNT(*) AS count FROM keys")).await?;
        row.map_or(Ok(0), |row| row.get("count"))
    }
}
