//! The upkeep of the count of stored bytes, and whether a tenant has a limit on them.

use std::sync::Arc;

use store::{TenantId, UnmeasuredArchive};

use crate::RunError;
use crate::artifacts;
use crate::runner::Runner;

/// How many archives are measured at once.
const BATCH: i64 = 100;
/// How long a server that fell silent keeps the others from measuring.
const DUTY_MS: i64 = 300_000;
const DUTY: &str = "archive measuring duty";

/// Keeps the count of what is stored until the runner is closed.
pub async fn keep_count(runner: Arc<Runner>) {
    loop {
        if let Err(error) = runner.keep_storage_count().await {
            tracing::warn!(%error, "the count of what tenants store could not be brought up to date");
        }
        let tick = tokio::time::sleep(runner.config.reap_tick);
        if runner.closed.run_until_cancelled(tick).await.is_none() {
            return;
        }
    }
}

impl Runner {
    /// Adds up the changes that the database keeps apart, and measures archives that were recorded
    /// by a server that did not.
    pub async fn keep_storage_count(&self) -> Result<(), RunError> {
        self.store.fold_storage_changes().await?;
        loop {
            let archives = self.store.unmeasured_archives(BATCH).await?;
            if archives.is_empty() || self.closed.is_cancelled() {
                return Ok(());
            }
            if !self.store.acquire_or_renew_duty(DUTY, &self.config.owner, DUTY_MS).await? {
                return Ok(());
            }
            for archive in &archives {
                self.measure(archive).await?;
            }
        }
    }

    async fn measure(&self, archive: &UnmeasuredArchive) -> Result<(), RunError> {
        let key = artifacts::key_of_archive(
            &archive.tenant,
            archive.execution_id,
            i64::from(archive.attempt),
        );
        let size = self.blobs.open(&key).await?.map_or(0, |blob| blob.size);
        self.store.set_archive_bytes(archive, i64::try_from(size).unwrap_or(i64::MAX)).await?;
        Ok(())
    }

    /// Whether what this tenant stores is limited. Those without a limit cost no look at the
    /// database.
    pub(crate) async fn storage_is_limited(&self, tenant: &TenantId) -> Result<bool, RunError> {
        if self.store.default_storage_limit().is_some() {
            return Ok(true);
        }
        Ok(self.policies.of(&self.store, tenant).await?.max_stored_bytes.is_some())
    }
}
