//! Unpacked skills by the digest of their archive, from memory or from blobs.
//!
//! Content never changes under a digest, so an entry cannot be stale. The key contains the tenant
//! as well: otherwise a tenant could find out by the time of a load whether another tenant has the
//! same content.

use std::sync::Arc;

use admission::{MemoryBudget, PermitError};
use blobs::{BlobError, BlobKey, Blobs};
use moka::future::Cache;
use serde_json::json;
use skill::{Package, SkillError};
use store::{NewAuditRecord, Store, TenantId};

use crate::{LoadedSkill, SchemaWorkers};

/// What an entry takes besides files and schemas: its manifest and its slot in the cache. It also
/// bounds the number of tiny skills.
const ENTRY_BYTES: u64 = 16 << 10;

/// Why a skill cannot be loaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    #[error("the skill's archive does not exist any more")]
    Deleted,
    /// The archive in storage is not the content that was published.
    #[error("the stored archive does not match the skill's digest")]
    Altered,
    /// The sentence names the schema.
    #[error("{0}")]
    UnusableSchema(String),
    #[error("no memory for the skill: {0}")]
    Memory(#[from] PermitError),
    #[error("the skill's schemas could not be compiled in time")]
    WorkersBusy,
    #[error("the blob store failed")]
    Blobs,
    #[error("the task that unpacked the archive panicked")]
    TaskPanicked,
}

/// Bounded by the bytes of the unpacked skills.
pub(crate) struct PackageCache {
    blobs: Blobs,
    store: Store,
    schema_workers: Arc<SchemaWorkers>,
    memory: MemoryBudget,
    cache: Cache<(TenantId, String), Arc<LoadedSkill>>,
}

impl PackageCache {
    pub(crate) fn new(
        blobs: Blobs,
        store: Store,
        schema_workers: Arc<SchemaWorkers>,
        memory: MemoryBudget,
        cache_bytes: u64,
    ) -> PackageCache {
        let cache = Cache::builder()
            .weigher(|_, skill: &Arc<LoadedSkill>| weight(skill.memory_bytes()))
            .max_capacity(cache_bytes)
            .build();
        PackageCache { blobs, store, schema_workers, memory, cache }
    }

    /// Parallel callers of the same skill share one load, and its failure.
    pub(crate) async fn load(
        &self,
        tenant: &TenantId,
        digest: &str,
    ) -> Result<Arc<LoadedSkill>, LoadError> {
        let key = (tenant.clone(), digest.to_owned());
        let loaded = self.cache.try_get_with(key, self.read(tenant, digest)).await;
        loaded.map_err(|error| LoadError::clone(&error))
    }

    /// Removes a skill that was deleted.
    pub(crate) async fn remove(&self, tenant: &TenantId, digest: &str) {
        self.cache.invalidate(&(tenant.clone(), digest.to_owned())).await;
    }

    async fn read(&self, tenant: &TenantId, digest: &str) -> Result<Arc<LoadedSkill>, LoadError> {
        let failed = |error: BlobError| {
            tracing::error!(%tenant, digest, %error, "reading a skill's archive failed");
            LoadError::Blobs
        };
        let key = BlobKey::skill(tenant.as_str(), digest);
        let size = self.blobs.size(&key).await.map_err(failed)?.ok_or(LoadError::Deleted)?;
        // Twice: the archive as it is stored, and the archive that is packed again for its digest.
        let _permit = self.memory.reserve(tenant, size.saturating_mul(2)).await?;
        let archive =
            self.blobs.get(&key, size).await.map_err(failed)?.ok_or(LoadError::Deleted)?;
        let expected = digest.to_owned();
        let unpacking = tokio::task::spawn_blocking(move || unpack(&archive, &expected));
        match unpacking.await.map_err(|_| LoadError::TaskPanicked)? {
            Ok(package) => self.compile(tenant, package).await.map(Arc::new),
            Err(error) => {
                self.report_altered(tenant, digest, &error).await;
                Err(LoadError::Altered)
            }
        }
    }

    async fn compile(&self, tenant: &TenantId, package: Package) -> Result<LoadedSkill, LoadError> {
        if !package.has_schema() {
            return LoadedSkill::compile(package).map_err(LoadError::UnusableSchema);
        }
        let compiled = self.schema_workers.run(tenant, move || LoadedSkill::compile(package)).await;
        compiled.map_err(|_| LoadError::WorkersBusy)?.map_err(LoadError::UnusableSchema)
    }

    /// Content that changed in storage concerns the operator, so it goes to the audit log besides
    /// the error that this caller gets.
    async fn report_altered(&self, tenant: &TenantId, digest: &str, error: &SkillError) {
        tracing::error!(%tenant, digest, %error, "a stored archive is not what was published");
        let altered = NewAuditRecord {
            actor: None,
            action: "skill.altered".to_owned(),
            object: digest.to_owned(),
            detail: json!({ "error": error.to_string() }),
            request_id: None,
        };
        if let Err(error) = self.store.append_audit_record(tenant, &altered).await {
            tracing::error!(%tenant, digest, %error, "the audit log could not be written");
        }
    }
}

/// The weight in the cache of a skill that takes so many bytes.
fn weight(memory_bytes: u64) -> u32 {
    u32::try_from(memory_bytes.saturating_add(ENTRY_BYTES)).unwrap_or(u32::MAX)
}

/// The limits of uploads do not apply: they may have been lowered since the upload, and the digest
/// proves that the archive was accepted. These limits are the largest of a canonical archive.
fn unpack(archive: &[u8], digest: &str) -> Result<Package, SkillError> {
    let any_size = skill::PackageLimits {
        entries: usize::from(u16::MAX),
        unpacked_bytes: u64::from(u32::MAX),
        path_bytes: usize::from(u16::MAX),
        depth: usize::from(u16::MAX),
        skill_file_bytes: u64::from(u32::MAX),
        ..skill::PackageLimits::default()
    };
    let package = skill::read_archive(archive, &any_size)?;
    if package.digest == digest { Ok(package) } else { Err(SkillError::Digest) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_weight_of_an_entry_has_a_minimum_and_does_not_overflow() {
        assert_eq!(u64::from(weight(0)), ENTRY_BYTES);
        assert_eq!(u64::from(weight(1 << 20)), (1 << 20) + ENTRY_BYTES);
        assert_eq!((weight(u64::from(u32::MAX)), weight(u64::MAX)), (u32::MAX, u32::MAX));
    }
}
