//! The files of a stored skill: each is read from its position in the archive, without the other
//! files.

use admission::WithPermit;
use blobs::{BlobKey, BlobReader};
use skill::{IndexedFile, SkillError};
use store::{SkillFileRow, SkillMetadata, TenantId};

use crate::{Catalogue, CatalogueError};

/// What an entry of a list takes in memory at most: its path, its hash and its fields, and the same
/// in the response.
const ENTRY_BYTES: u64 = 2048;

impl Catalogue {
    /// All files of a skill, by path.
    pub async fn list_skill_files(
        &self,
        head: &SkillMetadata,
    ) -> Result<WithPermit<Vec<SkillFileRow>>, CatalogueError> {
        let count = self.count_indexed(head).await?;
        let permit = self.resources.memory.reserve(&head.tenant, count * ENTRY_BYTES).await?;
        let files = self.store.list_skill_files(&head.tenant, &head.digest).await?;
        Ok(WithPermit::new(files, permit))
    }

    /// A file of a skill and a reader that verifies the hash of the bytes; `None` when there is no
    /// such file.
    pub async fn open_skill_file(
        &self,
        head: &SkillMetadata,
        path: &str,
    ) -> Result<Option<(SkillFileRow, BlobReader)>, CatalogueError> {
        self.count_indexed(head).await?;
        let Some(file) = self.store.get_skill_file(&head.tenant, &head.digest, path).await? else {
            return Ok(None);
        };
        let key = BlobKey::skill(head.tenant.as_str(), &head.digest);
        let reader = self.blobs.open_range(&key, file.position, file.size_bytes).await?;
        let reader =
            reader.ok_or(CatalogueError::Archive(SkillError::Digest))?.verified(&file.sha256);
        Ok(Some((file, reader)))
    }

    /// How many files a skill has. When their positions are not recorded yet, they are recorded
    /// first: the index failed at the upload, or an older version of this program published it.
    async fn count_indexed(&self, head: &SkillMetadata) -> Result<u64, CatalogueError> {
        let SkillMetadata { tenant, digest, .. } = head;
        match self.store.count_skill_files(tenant, digest).await? {
            // Not indexed: every skill has at least its SKILL.md or its manifest.
            0 => {}
            count => return Ok(count),
        }
        let size = u64::try_from(head.size_bytes).unwrap_or(0);
        let _permit = self.resources.memory.reserve(tenant, size).await?;
        let archive = self.blobs.get(&BlobKey::skill(tenant.as_str(), digest), size).await?;
        let archive = archive.ok_or(CatalogueError::Archive(SkillError::Digest))?;
        let expected = digest.clone();
        let indexing =
            tokio::task::spawn_blocking(move || skill::verify_and_index(&archive, &expected));
        let files = indexing
            .await
            .map_err(|_| CatalogueError::TaskPanicked)?
            .map_err(CatalogueError::Archive)?;
        self.record_files(tenant, digest, files).await?;
        Ok(self.store.count_skill_files(tenant, digest).await?)
    }

    pub(crate) async fn record_files(
        &self,
        tenant: &TenantId,
        digest: &str,
        files: Vec<IndexedFile>,
    ) -> Result<(), CatalogueError> {
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
