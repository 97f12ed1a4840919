//! Skills in and out: the archive goes to blobs before its row exists and leaves after the last row is gone, so that
//! no row is ever without its archive.

use std::collections::BTreeSet;
use std::sync::{MutexGuard, PoisonError};

use blobs::Key;
use serde_json::json;
use skill::{Mode, Package};
use store::{NewSkill, Put, TenantId, VersionPolicy};

use crate::RunError;
use crate::load::Skill;
use crate::runner::Runner;

impl Runner {
    pub async fn publish(&self, tenant: &TenantId, package: Package, versions: VersionPolicy) -> Result<Put, RunError> {
        let new = row(&package);
        let archive = package.archive.clone();
        // What could never run is told to its author now and not to its callers later.
        Skill::new(package).map_err(RunError::InvalidSkill)?;

        let _alone = self.publishing.lock().await;
        self.blobs.put(&Key::skill(tenant.as_str(), &new.digest), archive).await?;
        let put = self.store.put_skill(tenant, &new, versions).await;
        match &put {
            Ok(Put::Replaced { old_digest, .. }) => self.remove_unused(tenant, old_digest).await,
            Ok(Put::Created(_) | Put::Unchanged(_)) => {}
            Err(_) => self.remove_unused(tenant, &new.digest).await,
        }
        Ok(put?)
    }

    /// False when there was no such version. What was accepted before still runs.
    pub async fn unpublish(&self, tenant: &TenantId, name: &str, version: &str) -> Result<bool, RunError> {
        let _alone = self.publishing.lock().await;
        let Some(row) = self.store.delete_skill(tenant, name, version).await? else { return Ok(false) };
        self.remove_unused(tenant, &row.digest).await;
        Ok(true)
    }

    /// Tries again to remove archives that were still needed by an execution.
    pub(crate) async fn remove_leftovers(&self) {
        let _alone = self.publishing.lock().await;
        let leftovers = std::mem::take(&mut *self.leftovers());
        for (tenant, digest) in leftovers {
            self.remove_unused(&tenant, &digest).await;
        }
    }

    /// Removes an archive that no version of the tenant's skills has any more; later, when an execution that was
    /// accepted still needs it. A failure leaves litter and no damage, so the call that caused it succeeds.
    async fn remove_unused(&self, tenant: &TenantId, digest: &str) {
        let removed = async {
            if self.store.digest_in_use(tenant, digest).await? {
                self.leftovers().insert((tenant.clone(), digest.to_owned()));
                return Ok(());
            }
            self.skills.forget(tenant, digest).await;
            self.blobs.delete(&Key::skill(tenant.as_str(), digest)).await?;
            Ok::<(), RunError>(())
        };
        if let Err(error) = removed.await {
            tracing::error!(%tenant, digest, %error, "an archive may be left without a skill");
        }
    }

    fn leftovers(&self) -> MutexGuard<'_, BTreeSet<(TenantId, String)>> {
        self.leftovers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn row(package: &Package) -> NewSkill {
    let manifest = &package.manifest;
    NewSkill {
        name: manifest.name.clone(),
        version: manifest.version.clone(),
        digest: package.digest.clone(),
        description: manifest.description.clone(),
        lang: package.lang().map(|lang| lang.to_string()),
        mode: match manifest.mode {
            Mode::Executable => "executable".to_owned(),
            Mode::Cognitive => "cognitive".to_owned(),
        },
        manifest: serde_json::to_value(manifest).expect("a manifest has only string keys"),
        entrypoint: package.entrypoint.as_ref().map(|script| script.path.clone()),
        scripts: json!(package.scripts),
        size_bytes: i64::try_from(package.archive.len()).unwrap_or(i64::MAX),
    }
}
