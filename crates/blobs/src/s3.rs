//! Blobs as objects in two buckets of an S3 server: skill archives in one, artifacts and uploads in
//! the other.
//!
//! Uses only what MinIO, SeaweedFS, Ceph and AWS have in common: path-style addresses, no lifecycle
//! rules, no tags, checksums only where the protocol requires them. A blob key is the name of its
//! object (see `key.rs`).

mod buckets;
mod client;
mod config;
mod delete;
mod multipart;
mod object_writer;
mod presign;
mod problem;
mod stale_uploads;

use std::sync::Arc;

use aws_sdk_s3::Client;
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use bytes::Bytes;
use tokio::sync::Semaphore;

use crate::{BlobError, BlobKey, BlobPrefix, BlobReader};
use buckets::Bucket;
pub use config::S3Config;
pub(crate) use object_writer::{ObjectWriter, PART_BYTES as WRITER_BYTES};
use presign::Presigner;
pub use problem::S3Problem;

/// The parts of large blobs that are sent concurrently, over the whole process. With `PART_BYTES`
/// this limits their memory: 40 MiB, and at most one more part per writer.
const MAX_PARTS_IN_FLIGHT: usize = 8;

/// How often a blob is read when its body breaks off. The S3 client retries only until it has the
/// response headers.
const MAX_READ_ATTEMPTS: usize = 3;

#[derive(Debug)]
pub(crate) struct S3 {
    client: Client,
    endpoint: String,
    skills: Bucket,
    executions: Bucket,
    presigner: Presigner,
    parts: Arc<Semaphore>,
}

impl S3 {
    pub(crate) async fn connect(config: S3Config) -> Result<Arc<S3>, BlobError> {
        let endpoint = config.validate()?;
        let s3 = Arc::new(S3 {
            client: client::new(&config, &endpoint),
            presigner: Presigner::new(&config, &endpoint)?,
            endpoint,
            skills: Bucket {
                // A shared bucket must be writable, because artifacts are written to it.
                read_only: config.skills_read_only
                    && config.bucket_skills != config.bucket_executions,
                name: config.bucket_skills,
                setting: "s3_bucket_skills",
            },
            executions: Bucket {
                read_only: false,
                name: config.bucket_executions,
                setting: "s3_bucket_executions",
            },
            parts: Arc::new(Semaphore::new(MAX_PARTS_IN_FLIGHT)),
        });
        for bucket in s3.buckets() {
            s3.prepare(bucket, &config.region).await?;
        }
        tokio::spawn(stale_uploads::abort_stale_uploads_periodically(Arc::downgrade(&s3)));
        Ok(s3)
    }

    pub(crate) async fn get(&self, key: &BlobKey, max: u64) -> Result<Option<Bytes>, BlobError> {
        let mut retries = 1..MAX_READ_ATTEMPTS;
        loop {
            let Some(reader) = self.open_blob(key).await? else { return Ok(None) };
            match (reader.into_bytes(max).await, retries.next()) {
                (Err(error @ BlobError::Io { .. }), Some(_)) => {
                    tracing::warn!(%key, %error, "reading a blob failed; retrying")
                }
                (bytes, _) => return bytes.map(Some),
            }
        }
    }

    pub(crate) async fn open_blob(&self, key: &BlobKey) -> Result<Option<BlobReader>, BlobError> {
        const ACTION: &str = "read a blob";
        let bucket = self.bucket(key);
        let response = self.client.get_object().bucket(&bucket.name).key(key.as_str()).send().await;
        let object = match response {
            Err(error) if is_missing(&error) => return Ok(None),
            response => response.map_err(|error| self.failed(ACTION, bucket, &error))?,
        };
        let size = object.content_length().and_then(|length| u64::try_from(length).ok());
        let no_length =
            || S3Problem::Refused { answer: "an object without a content length".to_owned() };
        let size = size.ok_or_else(|| BlobError::S3 { action: ACTION, problem: no_length() })?;
        Ok(Some(BlobReader { size, stream: Box::pin(object.body.into_async_read()) }))
    }

    pub(crate) async fn size(&self, key: &BlobKey) -> Result<Option<u64>, BlobError> {
        const ACTION: &str = "read the size of a blob";
        let bucket = self.bucket(key);
        match self.client.head_object().bucket(&bucket.name).key(key.as_str()).send().await {
            Err(error) if is_missing(&error) => Ok(None),
            response => {
                let object = response.map_err(|error| self.failed(ACTION, bucket, &error))?;
                Ok(object.content_length().and_then(|length| u64::try_from(length).ok()))
            }
        }
    }

    pub(crate) async fn open_range(
        &self,
        key: &BlobKey,
        start: u64,
        length: u64,
    ) -> Result<Option<BlobReader>, BlobError> {
        const ACTION: &str = "read a part of a blob";
        // A range header names the last byte, so it cannot express an empty range.
        if length == 0 {
            return Ok(Some(BlobReader { size: 0, stream: Box::pin(tokio::io::empty()) }));
        }
        let bucket = self.bucket(key);
        let range = format!("bytes={start}-{}", start.saturating_add(length - 1));
        let response = self
            .client
            .get_object()
            .bucket(&bucket.name)
            .key(key.as_str())
            .range(range)
            .send()
            .await;
        let object = match response {
            Err(error) if is_missing(&error) => return Ok(None),
            response => response.map_err(|error| self.failed(ACTION, bucket, &error))?,
        };
        // A server without range support returns the whole object, and a shorter object returns
        // less than was requested.
        match object.content_length().and_then(|size| u64::try_from(size).ok()) == Some(length) {
            true => Ok(Some(BlobReader {
                size: length,
                stream: Box::pin(object.body.into_async_read()),
            })),
            false => Err(BlobError::too_short()),
        }
    }

    /// Stores a blob in one request; the server makes it visible atomically.
    async fn put(&self, key: &BlobKey, bytes: Vec<u8>) -> Result<(), BlobError> {
        let bucket = self.bucket(key);
        let put = self
            .client
            .put_object()
            .bucket(&bucket.name)
            .key(key.as_str())
            .content_type(client::CONTENT_TYPE);
        let put = put.body(bytes.into()).customize().config_override(client::upload_overrides());
        put.send().await.map_err(|error| self.failed("store a blob", bucket, &error))?;
        Ok(())
    }

    pub(crate) fn presign(
        &self,
        key: &BlobKey,
        filename: &str,
        content_type: &str,
        ttl: std::time::Duration,
    ) -> Result<String, BlobError> {
        self.presigner.url(&self.bucket(key).name, key, filename, content_type, ttl)
    }

    fn bucket(&self, key: &BlobKey) -> &Bucket {
        if key.category() == "skills" { &self.skills } else { &self.executions }
    }

    /// The buckets that can have objects below the prefix.
    fn buckets_below(&self, prefix: &BlobPrefix) -> Vec<&Bucket> {
        match prefix.category() {
            None => self.buckets(),
            Some("skills") => vec![&self.skills],
            Some(_) => vec![&self.executions],
        }
    }

    /// The distinct buckets: both settings may name the same one.
    fn buckets(&self) -> Vec<&Bucket> {
        let mut buckets = vec![&self.skills, &self.executions];
        buckets.dedup_by(|one, two| one.name == two.name);
        buckets
    }

    fn failed<E>(&self, action: &'static str, bucket: &Bucket, error: &SdkError<E>) -> BlobError
    where
        E: ProvideErrorMetadata + std::error::Error + 'static,
    {
        BlobError::S3 { action, problem: S3Problem::new(error, &self.endpoint, bucket) }
    }
}

/// Whether the object does not exist. A missing bucket is an error, not a missing object.
fn is_missing<E: ProvideErrorMetadata>(error: &SdkError<E>) -> bool {
    let SdkError::ServiceError(answer) = error else { return false };
    answer.raw().status().as_u16() == 404 && answer.err().code() != Some("NoSuchBucket")
}
