//! Step two, load: a skill's archive by its digest, from a cache in memory or from blobs, digest
//! checked.
//!
//! Content never changes under a digest, so the cache cannot be stale. It is keyed by tenant as
//! well: whether somebody else has the same bytes must not be felt, not even as speed.

use std::sync::Arc;

use blobs::{BlobError, BlobKey, Blobs};
use moka::future::Cache;
use sandbox::{JobFile, paths};
use serde_json::json;
use skill::{Finding, Manifest, Package, Script, Severity, SkillError};
use store::{NewAuditRecord, Store, TenantId};

use crate::budget::Budget;
use crate::halt::Halt;
use crate::memory;
use crate::schema::{Schema, SchemaWorkers};

/// What a skill takes beside its files and its schemas: its manifest, its place in the cache. Many
/// tiny skills are bounded too.
const ENTRY_BYTES: u64 = 16 << 10;

/// A skill ready to be planned: everything that does not depend on the request is worked out once.
#[derive(Debug)]
pub struct Skill {
    pub manifest: Manifest,
    /// With the paths they have inside the sandbox.
    pub files: Vec<JobFile>,
    pub files_bytes: u64,
    pub scripts: Vec<Script>,
    pub entrypoint: Option<Script>,
    pub input_schema: Option<Schema>,
    pub output_schema: Option<Schema>,
}

/// Unpacked skills, bounded by their bytes.
pub struct Skills {
    blobs: Blobs,
    store: Store,
    schema_workers: Arc<SchemaWorkers>,
    memory: Budget,
    cache: Cache<(TenantId, String), Arc<Skill>>,
}

impl Skills {
    pub fn new(
        blobs: Blobs,
        store: Store,
        schema_workers: Arc<SchemaWorkers>,
        memory: Budget,
        cache_bytes: u64,
    ) -> Skills {
        let cache = Cache::builder()
            .weigher(|_, skill: &Arc<Skill>| weight(skill.memory_bytes()))
            .max_capacity(cache_bytes)
            .build();
        Skills { blobs, store, schema_workers, memory, cache }
    }

    /// Parallel callers of the same skill share one load.
    pub async fn load(&self, tenant: &TenantId, digest: &str) -> Result<Arc<Skill>, Halt> {
        let key = (tenant.clone(), digest.to_owned());
        let loaded = self.cache.try_get_with(key, self.read(tenant, digest)).await;
        loaded.map_err(|halt| Halt::clone(&halt))
    }

    /// Lets go of a skill that was deleted.
    pub async fn forget(&self, tenant: &TenantId, digest: &str) {
        self.cache.invalidate(&(tenant.clone(), digest.to_owned())).await;
    }

    async fn read(&self, tenant: &TenantId, digest: &str) -> Result<Arc<Skill>, Halt> {
        let failed = |error: BlobError| {
            tracing::error!(%tenant, digest, %error, "reading a skill's archive failed");
            Halt::unready("The skill's archive could not be read.")
        };
        let deleted = || Halt::refused("The skill was deleted before it could run.");
        let key = BlobKey::skill(tenant.as_str(), digest);
        let size = self.blobs.size(&key).await.map_err(failed)?.ok_or_else(deleted)?;
        // The archive as it is stored, and once more as it is packed to find out its digest.
        let _permit = memory::reserve(&self.memory, tenant, size.saturating_mul(2)).await?;
        let archive = self.blobs.get(&key, size).await.map_err(failed)?.ok_or_else(deleted)?;
        let expected = digest.to_owned();
        let opened = tokio::task::spawn_blocking(move || open(&archive, &expected));
        match opened.await.map_err(|_| Halt::lost("The skill's archive could not be read."))? {
            Ok(package) => self.compile(tenant, package).await.map(Arc::new),
            Err(error) => {
                self.report_altered(tenant, digest, &error).await;
                Err(Halt::refused(
                    "The stored archive does not match the skill's digest; upload the skill again.",
                ))
            }
        }
    }

    async fn compile(&self, tenant: &TenantId, package: Package) -> Result<Skill, Halt> {
        if !package.has_schema() {
            return Skill::new(package).map_err(Halt::refused);
        }
        let compiled = self.schema_workers.run(tenant, move || Skill::new(package)).await;
        compiled
            .map_err(|_| Halt::unready("The skill's schemas could not be compiled in time."))?
            .map_err(Halt::refused)
    }

    /// Bytes that changed in storage are the operator's business, not only this caller's.
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
            tracing::error!(%tenant, digest, %error, "the audit trail could not be written");
        }
    }
}

/// What a skill that takes so many bytes counts as in the cache.
fn weight(memory_bytes: u64) -> u32 {
    u32::try_from(memory_bytes.saturating_add(ENTRY_BYTES)).unwrap_or(u32::MAX)
}

/// The limits of uploads do not apply: they may have been lowered since, and the digest says that
/// we stored this. These are what a canonical archive can hold at all.
fn open(archive: &[u8], digest: &str) -> Result<Package, SkillError> {
    let any_size = skill::Limits {
        entries: usize::from(u16::MAX),
        unpacked_bytes: u64::from(u32::MAX),
        path_bytes: usize::from(u16::MAX),
        depth: usize::from(u16::MAX),
        skill_file_bytes: u64::from(u32::MAX),
        ..skill::Limits::default()
    };
    let package = skill::read_archive(archive, &any_size)?;
    if package.digest == digest { Ok(package) } else { Err(SkillError::Digest) }
}

/// The schemas of a skill that cannot be enforced. Publishing it would be refused for them.
pub fn unusable_schemas(package: &Package) -> Vec<Finding> {
    let manifest = &package.manifest;
    let schemas =
        [("input_schema", &manifest.input_schema), ("output_schema", &manifest.output_schema)];
    let unusable = |(what, schema): (&str, &Option<serde_json::Value>)| {
        let error = Schema::compile(schema.as_ref()?).err()?;
        let message = format!("`{what}` {error}; change it");
        let finding = Finding {
            code: "schema_unusable",
            severity: Severity::Error,
            path: None,
            line: None,
            message,
        };
        Some(package.at_schema(what, finding))
    };
    schemas.into_iter().filter_map(unusable).collect()
}

impl Skill {
    /// What it keeps in memory, at most.
    pub fn memory_bytes(&self) -> u64 {
        let schemas = self.input_schema.iter().chain(&self.output_schema);
        schemas.map(Schema::memory_bytes).fold(self.files_bytes, u64::saturating_add)
    }

    /// The sentence is about a schema that cannot be used.
    pub fn new(package: Package) -> Result<Skill, String> {
        let schema = |what: &str, schema: &Option<serde_json::Value>| {
            let compiled = schema.as_ref().map(Schema::compile).transpose();
            compiled.map_err(|error| format!("The skill's {what} {error}."))
        };
        Ok(Skill {
            input_schema: schema("input_schema", &package.manifest.input_schema)?,
            output_schema: schema("output_schema", &package.manifest.output_schema)?,
            files_bytes: package.files.iter().map(|file| file.bytes.len() as u64).sum(),
            files: package
                .files
                .into_iter()
                .map(|file| JobFile {
                    path: format!("{}/{}", paths::SCRIPTS, file.path),
                    bytes: file.bytes,
                    executable: file.executable,
                })
                .collect(),
            manifest: package.manifest,
            scripts: package.scripts,
            entrypoint: package.entrypoint,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skill_weighs_what_it_takes_and_never_next_to_nothing() {
        assert_eq!(u64::from(weight(0)), ENTRY_BYTES);
        assert_eq!(u64::from(weight(1 << 20)), (1 << 20) + ENTRY_BYTES);
        assert_eq!((weight(u64::from(u32::MAX)), weight(u64::MAX)), (u32::MAX, u32::MAX));
    }
}
