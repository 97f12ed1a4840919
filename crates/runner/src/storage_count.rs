//! The maintenance of the count of stored bytes, and whether a tenant has a limit on them.

use std::sync::Arc;

use store::{TenantId, UnmeasuredArchive};

use crate::RunError;
use crate::artifacts;
use crate::runner::Runner;

/// Archives that are measured in one batch.
const BATCH_SIZE: i64 = 100;
/// How long a server that died during the duty keeps the others from it.
const DUTY_LEASE_MS: i64 = 300_000;
const DUTY: &str = "archive measuring duty";

/// Maintains the count of stored bytes until the runner is closed.
pub(crate) async fn maintain_storage_count(runner: Arc<Runner>) {
    loop {
        if let Err(error) = runner.update_storage_count().await {
            tracing::warn!(%error, "updating the count of stored bytes failed");
        }
        let tick = tokio::time::sleep(runner.config.reap_tick);
        if runner.closed.run_until_cancelled(tick).await.is_none() {
            return;
        }
    }
}

impl Runner {
    /// Adds the pending changes to the counts, and measures archives that were recorded by a server
    /// of an earlier version, without their size.
    pub async fn update_storage_count(&self) -> Result<(), RunError> {
        self.store.fold_storage_changes().await?;
        loop {
            let archives = self.store.unmeasured_archives(BATCH_SIZE).await?;
            if archives.is_empty() || self.closed.is_cancelled() {
                return Ok(());
            }
            if !self.store.acquire_or_renew_duty(DUTY, &self.config.owner, DUTY_LEASE_MS).await? {
                return Ok(());
            }
            for archive in &archives {
                self.measure_archive(archive).await?;
            }
        }
    }

    async fn measure_archive(&self, archive: &UnmeasuredArchive) -> Result<(), RunError> {
        let key = artifacts::archive_key_of_attempt(
            &archive.tenant,
            archive.execution_id,
            i64::from(archive.attempt),
        );
        let size = self.blobs.open(&key).await?.map_or(0, |blob| blob.size);
        self.store.set_archive_bytes(archive, i64::try_from(size).unwrap_or(i64::MAX)).await?;
        Ok(())
    }

    /// Whether there is a limit on what this tenant stores. For tenants without one this costs no
    /// query, because their policy is cached.
    pub(crate) async fn storage_is_limited(&self, tenant: &TenantId) -> Result<bool, RunError> {
        if self.store.default_storage_limit().is_some() {
            return Ok(true);
        }
        Ok(self.policies.get(&self.store, tenant).await?.max_stored_bytes.is_some())
    }
}
