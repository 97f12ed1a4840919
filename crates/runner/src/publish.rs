//! Skills in and out: the archive goes to blobs before its row exists and leaves after the last row
//! is gone, so that no row is ever without its archive. An archive without a row has a note
//! instead, and is removed in time; servers that publish and remove the same content at once see
//! each other by that note.

use std::time::Duration;

use blobs::BlobKey;
use bytes::Bytes;
use serde_json::json;
use skill::{Finding, Mode, Package};
use store::{
    Actor, ArchiveUpload, ArchiveUse, Micros, NewSkill, PutSkillResult, SkillStatus, TenantId,
    TenantPolicy,
};

use crate::RunError;
use crate::load::{Skill, unusable_schemas};
use crate::review;
use crate::runner::Runner;

/// An upload that was noted this long ago has come to an end, one way or the other.
const UPLOAD_MICROS: Micros = 3_600_000_000;
/// How long a server that died while it removed an archive keeps others from it.
const REMOVAL_MS: i64 = 60_000;
/// Before looking again whether a removal is over.
const REMOVAL_PAUSE: Duration = Duration::from_millis(50);
/// How many leftovers are removed in one go.
const BATCH: i64 = 100;

/// What an upload did, and what it was let in in spite of.
#[derive(Debug)]
pub struct Published {
    pub put: PutSkillResult,
    pub findings: Vec<Finding>,
}

impl Runner {
    /// Stores a skill that the tenant's rules about signatures let in, as far as its policy lets
    /// what the scanner found.
    pub async fn publish(
        &self,
        actor: Option<&Actor>,
        tenant: &TenantId,
        package: Package,
        scanned: &[Finding],
        policy: &TenantPolicy,
    ) -> Result<Published, RunError> {
        self.expect_free_disk()?;
        let vetted = self.vet(tenant, &package).await?;
        let verdict = self.store.review_decision(tenant, &package.digest).await?;
        let status = review::decide(policy.scan, scanned, verdict)?;
        let findings = package.findings.iter().chain(scanned).collect::<Vec<_>>();
        let new = NewSkill {
            status,
            findings: json!(findings),
            signature: vetted.signature,
            ..row(&package)
        };
        let archive = package.archive.clone();
        // What could never run is told to its author now and not to its callers later.
        self.check_schemas(tenant, package).await?;

        let note = self.note(tenant, &new.digest).await?;
        self.blobs.put(&BlobKey::skill(tenant.as_str(), &new.digest), archive.clone()).await?;
        match self.store_for(actor).put_skill(tenant, &new, policy.versions).await {
            Ok(put) => {
                self.store.commit_archive_upload(&note).await?;
                if !matches!(put, PutSkillResult::Unchanged(_)) {
                    self.index_files(tenant, &new.digest, archive).await;
                }
                if let PutSkillResult::Replaced { old_digest, .. } = &put {
                    self.remove_unused(tenant, old_digest).await;
                }
                Ok(Published { put, findings: vetted.findings })
            }
            Err(error) => {
                // Whether the row is there after all is looked at before anything is removed.
                self.store.abort_archive_upload(&note).await?;
                self.remove_unused(tenant, &new.digest).await;
                Err(error.into())
            }
        }
    }

    /// Records where the files lie. It is only to save the first reader the work, so a failure does
    /// not undo the upload.
    async fn index_files(&self, tenant: &TenantId, digest: &str, archive: Bytes) {
        let indexing = tokio::task::spawn_blocking(move || skill::file_index(&archive));
        let recorded = match indexing.await {
            Ok(Ok(files)) => self.record_files(tenant, digest, files).await,
            Ok(Err(error)) => Err(RunError::Archive(error)),
            Err(_) => Err(RunError::Broken),
        };
        if let Err(error) = recorded {
            tracing::warn!(%tenant, digest, %error, "the places of a skill's files were not recorded");
        }
    }

    async fn check_schemas(&self, tenant: &TenantId, package: Package) -> Result<(), RunError> {
        if !package.has_schema() {
            return Ok(());
        }
        let compiled = self.schema_workers.run(tenant, move || Skill::new(package).map(drop)).await;
        compiled.map_err(|_| RunError::TooBusy)?.map_err(RunError::InvalidSkill)
    }

    /// The schemas of a skill that cannot be enforced, as findings.
    pub async fn find_unusable_schemas(
        &self,
        tenant: &TenantId,
        package: Package,
    ) -> Result<(Package, Vec<Finding>), RunError> {
        if !package.has_schema() {
            return Ok((package, Vec::new()));
        }
        let work = move || {
            let unusable = unusable_schemas(&package);
            (package, unusable)
        };
        self.schema_workers.run(tenant, work).await.map_err(|_| RunError::TooBusy)
    }

    /// False when there was no such version. What was accepted before still runs.
    pub async fn unpublish(
        &self,
        actor: Option<&Actor>,
        tenant: &TenantId,
        name: &str,
        version: &str,
    ) -> Result<bool, RunError> {
        let deleted = self.store_for(actor).delete_skill(tenant, name, version).await?;
        let Some(row) = deleted else { return Ok(false) };
        self.remove_unused(tenant, &row.digest).await;
        Ok(true)
    }

    /// Removes archives that belong to no skill: those an execution still needed when their skill
    /// was deleted, and those of uploads that never came to an end.
    pub(crate) async fn remove_leftovers(&self, now: Micros) {
        match self.store.pending_archives(now - UPLOAD_MICROS, BATCH).await {
            Ok(loose) => {
                for (tenant, digest) in loose {
                    self.remove_unused(&tenant, &digest).await;
                }
            }
            Err(error) => tracing::warn!(%error, "looking for archives without a skill failed"),
        }
    }

    /// Notes an archive before it is stored. One that is just being removed must be gone first.
    async fn note(&self, tenant: &TenantId, digest: &str) -> Result<ArchiveUpload, RunError> {
        loop {
            if let Some(note) = self.store.begin_archive_upload(tenant, digest).await? {
                return Ok(note);
            }
            tokio::time::sleep(REMOVAL_PAUSE).await;
        }
    }

    /// Removes an archive that no version of the tenant's skills has any more; later, when an
    /// execution that was accepted still needs it. A failure leaves a note and no damage, so the
    /// call that caused it succeeds.
    async fn remove_unused(&self, tenant: &TenantId, digest: &str) {
        let removed = async {
            let upload = store::now() - UPLOAD_MICROS;
            if !self.store.claim_archive_removal(tenant, digest, upload, REMOVAL_MS).await? {
                return Ok(());
            }
            match self.store.archive_use(tenant, digest).await? {
                ArchiveUse::Published => self.store.finish_archive_removal(tenant, digest).await?,
                ArchiveUse::Needed => {
                    let archive = self.blobs.open(&BlobKey::skill(tenant.as_str(), digest)).await?;
                    let size =
                        archive.map_or(0, |blob| i64::try_from(blob.size).unwrap_or(i64::MAX));
                    self.store.defer_archive_removal(tenant, digest, size).await?;
                }
                ArchiveUse::Unused => {
                    self.skills.forget(tenant, digest).await;
                    self.blobs.delete(&BlobKey::skill(tenant.as_str(), digest)).await?;
                    self.store.delete_signatures(tenant, digest).await?;
                    self.store.delete_skill_files(tenant, digest).await?;
                    self.store.finish_archive_removal(tenant, digest).await?;
                }
            }
            Ok::<(), RunError>(())
        };
        if let Err(error) = removed.await {
            tracing::error!(%tenant, digest, %error, "an archive is left without a skill for now");
        }
    }
}

/// The row of a skill that nobody has judged.
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
        findings: json!([]),
        status: SkillStatus::Available,
        size_bytes: i64::try_from(package.archive.len()).unwrap_or(i64::MAX),
        signature: None,
    }
}
