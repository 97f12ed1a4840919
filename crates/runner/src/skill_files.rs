//! The files of a stored skill, one by one: each is read from its place in the archive, without the
//! others.

use blobs::{BlobKey, BlobReader};
use skill::{IndexedFile, SkillError};
use store::{SkillFileRow, SkillMetadata, TenantId};

use crate::RunError;
use crate::held::Held;
use crate::runner::Runner;

/// What a file of a list takes in memory at most: its path, its hash and its fields, and the same
/// in the answer.
const ENTRY_BYTES: u64 = 2048;

impl Runner {
    /// All files of a skill, by path.
    pub async fn list_skill_files(
        &self,
        head: &SkillMetadata,
    ) -> Result<Held<Vec<SkillFileRow>>, RunError> {
        let count = self.indexed(head).await?;
        let permit = self.reserve(&head.tenant, count * ENTRY_BYTES).await?;
        let files = self.store.list_skill_files(&head.tenant, &head.digest).await?;
        Ok(Held::new(files, permit))
    }

    /// A file of a skill and its bytes, whose hash is checked on their way; `None` when there is no
    /// such file.
    pub async fn open_skill_file(
        &self,
        head: &SkillMetadata,
        path: &str,
    ) -> Result<Option<(SkillFileRow, BlobReader)>, RunError> {
        self.indexed(head).await?;
        let Some(file) = self.store.get_skill_file(&head.tenant, &head.digest, path).await? else {
            return Ok(None);
        };
        let key = BlobKey::skill(head.tenant.as_str(), &head.digest);
        let reader = self.blobs.open_range(&key, file.position, file.size_bytes).await?;
        let reader = reader.ok_or(RunError::Archive(SkillError::Digest))?.verified(&file.sha256);
        Ok(Some((file, reader)))
    }

    /// How many files a skill has. Where they lie is recorded first if it is not: the skill was
    /// published by a program that did not do so.
    async fn indexed(&self, head: &SkillMetadata) -> Result<u64, RunError> {
        let SkillMetadata { tenant, digest, .. } = head;
        match self.store.count_skill_files(tenant, digest).await? {
            // Every skill has its SKILL.md or its manifest.
            0 => {}
            count => return Ok(count),
        }
        let size = u64::try_from(head.size_bytes).unwrap_or(0);
        let _permit = self.reserve(tenant, size).await?;
        let archive = self.blobs.get(&BlobKey::skill(tenant.as_str(), digest), size).await?;
        let archive = archive.ok_or(RunError::Archive(SkillError::Digest))?;
        let expected = digest.clone();
        let indexing =
            tokio::task::spawn_blocking(move || skill::index_canonical(&archive, &expected));
        let files = indexing.await.map_err(|_| RunError::Broken)?.map_err(RunError::Archive)?;
        self.record_files(tenant, digest, files).await?;
        Ok(self.store.count_skill_files(tenant, digest).await?)
    }

    pub(crate) async fn record_files(
        &self,
        tenant: &TenantId,
        digest: &str,
        files: Vec<IndexedFile>,
    ) -> Result<(), RunError> {
        let row = |file: IndexedFile| SkillFileRow {
            path: file.path,
            position: file.position,
            size_bytes: file.size,
            executable: file.executable,
            is_text: file.is_text,
            sha256: file.sha256,
        };
        let rows: Vec<_> = files.into_iter().map(row).collect();
        Ok(self.store.put_skill_files(tenant, digest, &rows).await?)
    }
}
