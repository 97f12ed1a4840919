//! Tenants, for operators.

use serde::{Deserialize, Serialize};

use crate::{Client, ClientError, Listing, PageSelector, Reply};

#[derive(Debug, Clone, Default, Serialize)]
pub struct NewTenant {
    pub id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<TenantPolicy>,
}

#[derive(Debug, Clone, Deserialize)]
pub struct Tenant {
    pub id: String,
    #[serde(default)]
    pub policy: TenantPolicy,
    pub created_at: Option<String>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TenantPolicy {
    /// `mutable`: an existing version may be replaced; `immutable`: it may not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub versions: Option<String>,
    /// What becomes of an upload with errors: `off`, `report`, `review` or `block`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scan: Option<String>,
    /// How many executions may run at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_concurrent: Option<u32>,
    /// How many executions may wait at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_queued: Option<u32>,
    /// How many executions may be asked for in a minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_per_minute: Option<u32>,
    /// How many bytes of uploaded files it may keep.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_file_bytes: Option<u64>,
    /// How many bytes it may store in all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_stored_bytes: Option<u64>,
    /// Its share of the workers, compared with other tenants that wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// What becomes of skills without a trusted signature: `off`, `warn` or `require`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signatures: Option<String>,
}

/// What a tenant stores.
#[derive(Debug, Clone, Deserialize)]
pub struct TenantUsage {
    pub stored_bytes: u64,
    /// None where there is no limit.
    pub max_stored_bytes: Option<u64>,
}

impl Client {
    /// Of the tenant that the key acts for.
    pub async fn usage(&self) -> Result<Reply<TenantUsage>, ClientError> {
        self.get(&["v1", "usage"]).await
    }

    pub async fn create_tenant(&self, tenant: &NewTenant) -> Result<Reply<Tenant>, ClientError> {
        self.post(&["v1", "tenants"], tenant).await
    }

    pub async fn tenants(&self, page: &PageSelector) -> Result<Listing<Tenant>, ClientError> {
        self.list(&["v1", "tenants"], &page.query()).await
    }

    pub async fn tenant(&self, id: &str) -> Result<Reply<Tenant>, ClientError> {
        self.get(&["v1", "tenants", id]).await
    }

    /// Replaces the policy as a whole.
    pub async fn update_tenant(
        &self,
        id: &str,
        policy: &TenantPolicy,
    ) -> Result<Reply<Tenant>, ClientError> {
        self.put(&["v1", "tenants", id], &serde_json::json!({ "policy": policy })).await
    }

    pub async fn delete_tenant(&self, id: &str) -> Result<(), ClientError> {
        self.delete(&["v1", "tenants", id]).await
    }
}
