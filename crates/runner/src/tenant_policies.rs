//! The tenants' policies, cached, so that a tenant without limits costs no query.

use std::sync::Arc;
use std::time::Duration;

use moka::future::Cache;
use store::{Store, StoreError, TenantId, TenantPolicy};

/// How long a changed policy may go unnoticed.
const POLICY_TTL: Duration = Duration::from_secs(5);
const MAX_CACHED_TENANTS: u64 = 10_000;

pub(crate) struct TenantPolicies {
    cache: Cache<TenantId, Arc<TenantPolicy>>,
}

impl TenantPolicies {
    pub(crate) fn new() -> TenantPolicies {
        let cache = Cache::builder().max_capacity(MAX_CACHED_TENANTS).time_to_live(POLICY_TTL);
        TenantPolicies { cache: cache.build() }
    }

    /// The policy of a tenant; the default one for a tenant that does not exist.
    pub(crate) async fn get(
        &self,
        store: &Store,
        tenant: &TenantId,
    ) -> Result<Arc<TenantPolicy>, StoreError> {
        if let Some(policy) = self.cache.get(tenant).await {
            return Ok(policy);
        }
        let row = store.get_tenant(tenant).await?;
        let policy = Arc::new(row.map(|row| row.policy).unwrap_or_default());
        self.cache.insert(tenant.clone(), Arc::clone(&policy)).await;
        Ok(policy)
    }
}
