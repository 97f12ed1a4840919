//! The `Catalogue`: its parts, and how it is made. Its methods are in the files of their subjects.

use std::sync::Arc;

use admission::SharedResources;
use blobs::Blobs;
use store::{Actor, Store, TenantId};

use crate::package_cache::PackageCache;
use crate::{LoadError, LoadedSkill, SchemaWorkers};

/// What the operator decides.
#[derive(Debug, Clone)]
pub struct CatalogueConfig {
    /// The largest file that can be uploaded.
    pub max_file_bytes: u64,
    /// Bytes of unpacked skills kept in memory.
    pub skill_cache_bytes: u64,
}

impl Default for CatalogueConfig {
    fn default() -> CatalogueConfig {
        CatalogueConfig { max_file_bytes: 100 << 20, skill_cache_bytes: 128 << 20 }
    }
}

/// The skills and the uploaded files of all tenants.
pub struct Catalogue {
    pub(crate) config: CatalogueConfig,
    pub(crate) store: Store,
    pub(crate) blobs: Blobs,
    pub(crate) resources: SharedResources,
    pub(crate) schema_workers: Arc<SchemaWorkers>,
    pub(crate) packages: PackageCache,
}

impl Catalogue {
    pub fn new(
        config: CatalogueConfig,
        store: Store,
        blobs: Blobs,
        resources: SharedResources,
    ) -> Catalogue {
        let schema_workers = Arc::new(SchemaWorkers::new());
        let packages = PackageCache::new(
            blobs.clone(),
            store.clone(),
            Arc::clone(&schema_workers),
            resources.memory.clone(),
            config.skill_cache_bytes,
        );
        Catalogue { config, store, blobs, resources, schema_workers, packages }
    }

    /// A skill by the digest of its archive, unpacked and compiled. Parallel calls for the same
    /// skill share one load.
    pub async fn load_skill(
        &self,
        tenant: &TenantId,
        digest: &str,
    ) -> Result<Arc<LoadedSkill>, LoadError> {
        self.packages.load(tenant, digest).await
    }

    /// Where documents are checked against the schemas of skills.
    pub fn schema_workers(&self) -> &SchemaWorkers {
        &self.schema_workers
    }

    /// A store that records changes in the audit log under this actor; without one, the changes are
    /// the server's own.
    pub(crate) fn store_for(&self, actor: Option<&Actor>) -> Store {
        actor.map_or_else(|| self.store.clone(), |actor| self.store.with_actor(actor.clone()))
    }
}
