//! Step two, load: a skill's archive by its digest, from a cache in memory or from blobs, digest checked.
//!
//! Content never changes under a digest, so the cache cannot be stale. It is keyed by tenant as well: whether
//! somebody else has the same bytes must not be felt, not even as speed.

use std::sync::Arc;

use blobs::{Blobs, Key};
use bytes::Bytes;
use moka::future::Cache;
use sandbox::{JobFile, paths};
use skill::{Manifest, Package, Script, SkillError};
use store::TenantId;

use crate::halt::Halt;
use crate::schema::Schema;

/// A canonical archive larger than this was never stored by us.
const MAX_ARCHIVE_BYTES: u64 = 1 << 30;

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
    cache: Cache<(TenantId, String), Arc<Skill>>,
}

impl Skills {
    pub fn new(blobs: Blobs, cache_bytes: u64) -> Skills {
        let cache = Cache::builder()
            .weigher(|_, skill: &Arc<Skill>| u32::try_from(skill.files_bytes).unwrap_or(u32::MAX))
            .max_capacity(cache_bytes)
            .build();
        Skills { blobs, cache }
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
        let archive = match self.blobs.get(&Key::skill(tenant.as_str(), digest), MAX_ARCHIVE_BYTES).await {
            Ok(Some(archive)) => archive,
            Ok(None) => return Err(Halt::refused("The skill was deleted before it could run.")),
            Err(error) => {
                tracing::error!(%tenant, digest, %error, "reading a skill's archive failed");
                return Err(Halt::lost("The skill's archive could not be read."));
            }
        };
        let digest = digest.to_owned();
        let unpacked = tokio::task::spawn_blocking(move || unpack(&archive, &digest)).await;
        unpacked.map_err(|_| Halt::lost("The skill's archive could not be read."))?.map(Arc::new)
    }
}

fn unpack(archive: &Bytes, digest: &str) -> Result<Skill, Halt> {
    let package = open(archive, digest).map_err(|error| {
        tracing::error!(digest, %error, "a stored archive is not what was published");
        Halt::refused("The stored archive does not match the skill's digest; upload the skill again.")
    })?;
    Skill::new(package).map_err(Halt::refused)
}

/// The limits of uploads do not apply: they may have been lowered since, and the digest says that we stored this. These
/// are what a canonical archive can hold at all.
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

impl Skill {
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
