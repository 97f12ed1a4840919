//! Uploads that a process left behind when it died. They are not visible as objects and cost space
//! all the same.
//!
//! A lifecycle rule would do it on some servers, but others ignore it, and setting one replaces
//! those the operator has.

use std::sync::Weak;
use std::time::{Duration, SystemTime};

use aws_sdk_s3::error::ProvideErrorMetadata;
use aws_sdk_s3::types::MultipartUpload;

use super::S3;
use super::buckets::Bucket;
use crate::{BlobError, BlobKey};

const ACTION: &str = "give up unfinished uploads";

/// No upload of a living process takes so long.
const OLD: Duration = Duration::from_secs(24 * 60 * 60);

const EVERY: Duration = Duration::from_secs(6 * 60 * 60);

/// Runs as long as somebody uses the store. Failing leaves litter and no damage.
pub(super) async fn abort_now_and_then(s3: Weak<S3>) {
    while let Some(s3) = s3.upgrade() {
        match s3.abort_unfinished(OLD).await {
            Ok(0) => {}
            Ok(count) => {
                tracing::info!(count, "gave up uploads that a dead process left unfinished")
            }
            Err(error) => tracing::warn!(%error, "unfinished uploads of dead processes may stay"),
        }
        drop(s3);
        tokio::time::sleep(EVERY).await;
    }
}

impl S3 {
    pub async fn abort_unfinished(&self, older_than: Duration) -> Result<usize, BlobError> {
        let before = SystemTime::now().checked_sub(older_than).unwrap_or(SystemTime::UNIX_EPOCH);
        let mut count = 0;
        for bucket in self.buckets().into_iter().filter(|bucket| !bucket.read_only) {
            for upload in self.uploads(bucket).await? {
                if let Some((key, id)) = ours_before(&upload, before) {
                    self.abort_upload(bucket, key, id).await?;
                    count += 1;
                }
            }
        }
        Ok(count)
    }

    pub(super) async fn abort_upload(
        &self,
        bucket: &Bucket,
        key: &str,
        id: &str,
    ) -> Result<(), BlobError> {
        let abort =
            self.client.abort_multipart_upload().bucket(&bucket.name).key(key).upload_id(id);
        match abort.send().await {
            Err(error) if error.code() != Some("NoSuchUpload") => {
                Err(self.failed(ACTION, bucket, &error))
            }
            _ => Ok(()),
        }
    }

    async fn uploads(&self, bucket: &Bucket) -> Result<Vec<MultipartUpload>, BlobError> {
        let mut uploads = Vec::new();
        let (mut key, mut id) = (None, None);
        loop {
            let list = self.client.list_multipart_uploads().bucket(&bucket.name);
            let page = list.set_key_marker(key.take()).set_upload_id_marker(id.take()).send().await;
            let page = page.map_err(|error| self.failed(ACTION, bucket, &error))?;
            uploads.extend(page.uploads.unwrap_or_default());
            match (page.is_truncated, page.next_key_marker) {
                (Some(true), Some(next)) => (key, id) = (Some(next), page.next_upload_id_marker),
                _ => return Ok(uploads),
            }
        }
    }
}

/// Its key and id. The bucket may be used by others too: what does not look like a key of ours is
/// left alone.
fn ours_before(upload: &MultipartUpload, before: SystemTime) -> Option<(&str, &str)> {
    let (key, id) = (upload.key()?, upload.upload_id()?);
    let begun = SystemTime::try_from(*upload.initiated()?).ok()?;
    let ours = BlobKey::parse(key).is_ok_and(|key| matches!(key.kind(), "skills" | "executions"));
    (ours && begun < before).then_some((key, id))
}
