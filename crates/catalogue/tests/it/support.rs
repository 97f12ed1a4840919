//! A catalogue on a store and blobs of its own.

use admission::{DiskReserve, SharedResources};
use blobs::{BlobKey, Blobs};
use catalogue::{Catalogue, CatalogueConfig};
use skill::Package;
use store::{PutSkillResult, Store, TenantId, TenantPolicy};
use tempfile::TempDir;

pub(crate) const SKILL_MD: &str = "---\nname: demo\ndescription: A demonstration.\n---\nDo it.\n";

pub(crate) struct Bench {
    pub catalogue: Catalogue,
    pub store: Store,
    pub blobs: Blobs,
    _data: TempDir,
}

impl Bench {
    pub(crate) async fn new() -> Bench {
        let data = TempDir::new().expect("a temporary directory");
        let dsn = format!("sqlite:{}", data.path().join("db").display());
        let store = Store::open(&dsn).await.expect("a store");
        store.ensure_tenant(&acme()).await.expect("a tenant");
        let blobs = Blobs::directory(data.path().join("blobs")).expect("blobs");
        let resources = SharedResources::new(400 << 20, DiskReserve::default());
        let config = CatalogueConfig::default();
        let catalogue = Catalogue::new(config, store.clone(), blobs.clone(), resources);
        Bench { catalogue, store, blobs, _data: data }
    }

    pub(crate) async fn publish(&self, files: &[(&str, &str)]) -> PutSkillResult {
        let policy = TenantPolicy::default();
        let published = self.catalogue.publish(None, &acme(), package(files), &[], &policy).await;
        published.expect("published").put
    }

    pub(crate) async fn has_archive(&self, digest: &str) -> bool {
        self.blobs.get(&BlobKey::skill("acme", digest), 1 << 20).await.expect("read").is_some()
    }
}

pub(crate) fn package(files: &[(&str, &str)]) -> Package {
    let parts = files
        .iter()
        .map(|(path, content)| ((*path).to_owned(), content.as_bytes().to_vec()))
        .collect();
    skill::read_parts(parts, &skill::PackageLimits::default()).expect("a skill")
}

pub(crate) fn acme() -> TenantId {
    TenantId::try_from("acme").expect("a tenant's name")
}
