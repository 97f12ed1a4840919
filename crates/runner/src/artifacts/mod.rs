//! The files that executions leave in blobs: how they get there, where they are, how they are
//! removed.

mod gzip_tar;
mod writer;

use blobs::{BlobError, BlobKey, BlobPrefix, Blobs};
use store::{Execution, FileRow, TenantId};
use uuid::Uuid;

pub(crate) use self::writer::{Artifacts, StoredArtifacts};
use crate::RunError;
use crate::failpoint::{Point, reach};
use crate::runner::Runner;

/// Removes all blobs of one attempt at an execution. A failure is only logged: what is left belongs
/// to no row, and the next removal of the execution's blobs finds it.
pub(crate) async fn discard(blobs: &Blobs, tenant: &TenantId, execution_id: Uuid, attempt: i64) {
    if let Err(error) = remove(blobs, tenant, execution_id, attempt).await {
        tracing::error!(%tenant, %execution_id, %error, "removing an execution's blobs failed");
    }
}

pub(crate) async fn remove(
    blobs: &Blobs,
    tenant: &TenantId,
    execution_id: Uuid,
    attempt: i64,
) -> Result<(), BlobError> {
    reach(Point::Remove);
    blobs
        .delete_prefix(&BlobPrefix::execution(tenant.as_str(), attempt_dir(execution_id, attempt)))
        .await
}

impl Runner {
    /// The archive that holds a copy of this artifact; `None` if the file is no artifact, or a later
    /// version of one.
    pub async fn archive_with_copy(&self, file: &FileRow) -> Result<Option<BlobKey>, RunError> {
        let Some(execution_id) = file.execution_id.filter(|_| file.parent_id.is_none()) else {
            return Ok(None);
        };
        let execution = self.store.get_execution_summary(&file.tenant, execution_id).await?;
        Ok(execution.as_ref().and_then(archive_key))
    }
}

/// The key of the archive of all files of an execution that has ended, if it has any.
pub fn archive_key(execution: &Execution) -> Option<BlobKey> {
    let key =
        || archive_key_of_attempt(&execution.tenant, execution.id, i64::from(execution.attempt));
    (execution.has_archive && !execution.archive_removed).then(key)
}

pub(crate) fn archive_key_of_attempt(
    tenant: &TenantId,
    execution_id: Uuid,
    attempt: i64,
) -> BlobKey {
    BlobKey::archive(tenant.as_str(), attempt_dir(execution_id, attempt))
}

/// The directory of one attempt. Each attempt has its own, so that a late worker, which lost its
/// lease, neither overwrites nor removes what the next one wrote.
fn attempt_dir(execution_id: Uuid, attempt: i64) -> String {
    match attempt {
        ..=1 => execution_id.to_string(),
        later => format!("{execution_id}-{later}"),
    }
}
