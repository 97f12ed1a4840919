//! Multipart uploads that a dead process left unfinished. They are not visible as objects but use
//! storage.
//!
//! A lifecycle rule would abort them on some servers, but others ignore it, and setting one
//! replaces the operator's own rules.

use std::sync::Weak;
use std::time::{Duration, SystemTime};

use aws_sdk_s3::error::ProvideErrorMetadata;
use aws_sdk_s3::types::MultipartUpload;

use super::S3;
use super::buckets::Bucket;
use crate::{BlobError, BlobKey};

const ACTION: &str = "abort unfinished uploads";

/// No upload of a live process takes this long.
const STALE_AGE: Duration = Duration::from_secs(24 * 60 * 60);

const SWEEP_INTERVAL: Duration = Duration::from_secs(6 * 60 * 60);

/// Runs as long as the storage is in use. A failure leaves unused parts and does no other harm.
pub(super) async fn abort_stale_uploads_periodically(s3: Weak<S3>) {
    while let Some(s3) = s3.upgrade() {
        match s3.abort_unfinished(STALE_AGE).await {
            Ok(0) => {}
            Ok(count) => {
                tracing::info!(count, "aborted unfinished uploads of dead processes")
            }
            Err(error) => tracing::warn!(%error, "unfinished uploads of dead processes may remain"),
        }
        drop(s3);
        tokio::time::sleep(SWEEP_INTERVAL).await;
    }
}

impl S3 {
    pub(crate) async fn abort_unfinished(&self, older_than: Duration) -> Result<usize, BlobError> {
        let before = SystemTime::now().checked_sub(older_than).unwrap_or(SystemTime::UNIX_EPOCH);
        let mut count = 0;
        for bucket in self.buckets().into_iter().filter(|bucket| !bucket.read_only) {
            for upload in self.uploads(bucket).await? {
                if let Some((key, id)) = stale_upload(&upload, before) {
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

/// The key and id of an upload that is ours and stale. Other programs may use the bucket too:
/// uploads whose key is not a blob key are left alone.
fn stale_upload(upload: &MultipartUpload, before: SystemTime) -> Option<(&str, &str)> {
    let (key, id) = (upload.key()?, upload.upload_id()?);
    let started = SystemTime::try_from(*upload.initiated()?).ok()?;
    let ours =
        BlobKey::parse(key).is_ok_and(|key| matches!(key.category(), "skills" | "executions"));
    (ours && started < before).then_some((key, id))
}
