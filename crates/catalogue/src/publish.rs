//! Publishing and unpublishing. The archive is stored before its row and removed after the last row
//! is deleted, so that no row is ever without its archive. An archive without a row has a note
//! instead and is removed later; servers that publish and remove the same content at the same time
//! coordinate by that note.

use std::time::Duration;

use blobs::BlobKey;
use bytes::Bytes;
use serde_json::json;
use skill::{Finding, Package, SkillMode};
use store::{
    Actor, ArchiveUpload, ArchiveUse, Micros, NewSkill, PutSkillResult, SkillStatus, TenantId,
    TenantPolicy,
};

use crate::review;
use crate::{Catalogue, CatalogueError, LoadedSkill, unusable_schemas};

/// An upload that was noted this long ago has ended, successfully or not.
const UPLOAD_TIMEOUT_MICROS: Micros = 3_600_000_000;
/// How long the removal of an archive is claimed: another server takes over after this time when
/// the first one crashed.
const REMOVAL_CLAIM_MS: i64 = 60_000;
/// How often an upload checks whether the removal of the same archive is over.
const REMOVAL_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How many unused archives are removed per call.
const BATCH: i64 = 100;

/// The result of publishing, with the findings that did not prevent it.
#[derive(Debug)]
pub struct PublishedSkill {
    pub put: PutSkillResult,
    pub findings: Vec<Finding>,
}

impl Catalogue {
    /// Publishes a package if the tenant's signature and scan policies allow it.
    pub async fn publish(
        &self,
        actor: Option<&Actor>,
        tenant: &TenantId,
        package: Package,
        scanned: &[Finding],
        policy: &TenantPolicy,
    ) -> Result<PublishedSkill, CatalogueError> {
        self.resources.disk.check()?;
        let checked = self.check_upload(tenant, &package).await?;
        let verdict = self.store.review_decision(tenant, &package.digest).await?;
        let status = review::decide(policy.scan, scanned, verdict)?;
        let findings = package.findings.iter().chain(scanned).collect::<Vec<_>>();
        let new = NewSkill {
            status,
            findings: json!(findings),
            signature: checked.signature,
            ..row(&package)
        };
        let archive = package.archive.clone();
        // A schema that could never be enforced is an error for its author now, instead of an error
        // for each caller later.
        self.check_schemas(tenant, package).await?;

        // The note first: if this process crashes between blob and row, the note is what finds the
        // blob again.
        let note = self.note_archive(tenant, &new.digest).await?;
        self.blobs.put(&BlobKey::skill(tenant.as_str(), &new.digest), archive.clone()).await?;
        match self.store_for(actor).put_skill(tenant, &new, policy.versions).await {
            Ok(put) => {
                self.store.commit_archive_upload(&note).await?;
                if !matches!(put, PutSkillResult::Unchanged(_)) {
                    self.index_files(tenant, &new.digest, archive).await;
                }
                if let PutSkillResult::Replaced { old_digest, .. } = &put {
                    self.remove_if_unused(tenant, old_digest).await;
                }
                Ok(PublishedSkill { put, findings: checked.findings })
            }
            Err(error) => {
                // The transaction may have been committed although we got an error, so
                // `remove_if_unused` looks for the row before it removes anything.
                self.store.abort_archive_upload(&note).await?;
                self.remove_if_unused(tenant, &new.digest).await;
                Err(error.into())
            }
        }
    }

    /// Records the positions of the files in the archive. The first read would do the same, so a
    /// failure does not undo the upload.
    async fn index_files(&self, tenant: &TenantId, digest: &str, archive: Bytes) {
        let indexing = tokio::task::spawn_blocking(move || skill::index_files(&archive));
        let recorded = match indexing.await {
            Ok(Ok(files)) => self.record_files(tenant, digest, files).await,
            Ok(Err(error)) => Err(CatalogueError::Archive(error)),
            Err(_) => Err(CatalogueError::TaskPanicked),
        };
        if let Err(error) = recorded {
            tracing::warn!(%tenant, digest, %error, "the file index of a skill was not recorded");
        }
    }

    async fn check_schemas(
        &self,
        tenant: &TenantId,
        package: Package,
    ) -> Result<(), CatalogueError> {
        if !package.has_schema() {
            return Ok(());
        }
        let compile = move || LoadedSkill::compile(package).map(drop);
        let compiled = self.schema_workers.run(tenant, compile).await;
        compiled.map_err(|_| CatalogueError::WorkersBusy)?.map_err(CatalogueError::InvalidSkill)
    }

    /// Findings about schemas that cannot be enforced, with the package that was checked.
    pub async fn find_unusable_schemas(
        &self,
        tenant: &TenantId,
        package: Package,
    ) -> Result<(Package, Vec<Finding>), CatalogueError> {
        if !package.has_schema() {
            return Ok((package, Vec::new()));
        }
        let work = move || {
            let unusable = unusable_schemas(&package);
            (package, unusable)
        };
        self.schema_workers.run(tenant, work).await.map_err(|_| CatalogueError::WorkersBusy)
    }

    /// False when there was no such version. Executions that were accepted before still run.
    pub async fn unpublish(
        &self,
        actor: Option<&Actor>,
        tenant: &TenantId,
        name: &str,
        version: &str,
    ) -> Result<bool, CatalogueError> {
        let deleted = self.store_for(actor).delete_skill(tenant, name, version).await?;
        let Some(row) = deleted else { return Ok(false) };
        self.remove_if_unused(tenant, &row.digest).await;
        Ok(true)
    }

    /// Removes archives without a skill: those that an execution still needed when their skill was
    /// deleted, and those of uploads that failed.
    pub async fn remove_unused_archives(&self, now: Micros) {
        match self.store.pending_archives(now - UPLOAD_TIMEOUT_MICROS, BATCH).await {
            Ok(archives) => {
                for (tenant, digest) in archives {
                    self.remove_if_unused(&tenant, &digest).await;
                }
            }
            Err(error) => tracing::warn!(%error, "looking for archives without a skill failed"),
        }
    }

    /// Notes an archive before it is stored. While another server removes the same archive, the
    /// upload waits: otherwise the removal could delete the blob that we are about to store.
    async fn note_archive(
        &self,
        tenant: &TenantId,
        digest: &str,
    ) -> Result<ArchiveUpload, CatalogueError> {
        loop {
            if let Some(note) = self.store.begin_archive_upload(tenant, digest).await? {
                return Ok(note);
            }
            tokio::time::sleep(REMOVAL_POLL_INTERVAL).await;
        }
    }

    /// Removes an archive that no version of the tenant's skills refers to; later, when an accepted
    /// execution still needs it. A failure leaves the note and does no damage, so it is logged and
    /// the calling operation succeeds.
    async fn remove_if_unused(&self, tenant: &TenantId, digest: &str) {
        if let Err(error) = self.try_remove(tenant, digest).await {
            tracing::error!(%tenant, digest, %error, "an archive without a skill was not removed yet");
        }
    }

    async fn try_remove(&self, tenant: &TenantId, digest: &str) -> Result<(), CatalogueError> {
        let noted_before = store::now() - UPLOAD_TIMEOUT_MICROS;
        if !self.store.claim_archive_removal(tenant, digest, noted_before, REMOVAL_CLAIM_MS).await?
        {
            return Ok(());
        }
        // Only after the claim, because from then on no upload can add a row for this digest.
        match self.store.archive_use(tenant, digest).await? {
            ArchiveUse::Published => self.store.finish_archive_removal(tenant, digest).await?,
            ArchiveUse::Needed => {
                let archive = self.blobs.open(&BlobKey::skill(tenant.as_str(), digest)).await?;
                let size = archive.map_or(0, |blob| i64::try_from(blob.size).unwrap_or(i64::MAX));
                self.store.defer_archive_removal(tenant, digest, size).await?;
            }
            ArchiveUse::Unused => {
                self.packages.remove(tenant, digest).await;
                self.blobs.delete(&BlobKey::skill(tenant.as_str(), digest)).await?;
                self.store.delete_signatures(tenant, digest).await?;
                self.store.delete_skill_files(tenant, digest).await?;
                // The note last: while it exists, a removal that was interrupted is repeated.
                self.store.finish_archive_removal(tenant, digest).await?;
            }
        }
        Ok(())
    }
}

/// The row of a package, without a status or findings of the scanner.
fn row(package: &Package) -> NewSkill {
    let manifest = &package.manifest;
    NewSkill {
        name: manifest.name.clone(),
        version: manifest.version.clone(),
        digest: package.digest.clone(),
        description: manifest.description.clone(),
        lang: package.lang().map(|lang| lang.to_string()),
        mode: match manifest.mode {
            SkillMode::Executable => "executable".to_owned(),
            SkillMode::Cognitive => "cognitive".to_owned(),
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
