//! Blobs as objects in two buckets of an S3 server: skill archives in one, what executions leave in
//! the other.
//!
//! Speaks what MinIO, SeaweedFS, Ceph and AWS have in common: path style, no lifecycle rules, no
//! tags, checksums only where the protocol demands them. A key is an object's name as it stands
//! (see `key.rs`).

mod buckets;
mod client;
mod config;
mod delete;
mod multipart;
mod new_object;
mod presign;
mod problem;
mod unfinished;

use std::sync::Arc;

use aws_sdk_s3::Client;
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use bytes::Bytes;
use tokio::sync::Semaphore;

use crate::{BlobError, BlobKey, BlobPrefix, BlobReader};
use buckets::Bucket;
pub use config::S3Config;
pub(crate) use new_object::{ObjectWriter, PART_BYTES as WRITER_BYTES};
use presign::Presigner;
pub use problem::S3Problem;

/// Parts of large blobs that may be on their way at once, over the whole process. With `PART_BYTES`
/// it bounds the memory they take: 40 MiB, and at most one part more for each writer.
const PARTS_UNDER_WAY: usize = 8;

/// How often a blob is asked for again when its bytes break off. What comes before them is retried
/// by the client.
const READS: usize = 3;

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
    pub async fn connect(config: S3Config) -> Result<Arc<S3>, BlobError> {
        let endpoint = config.checked()?;
        let s3 = Arc::new(S3 {
            client: client::new(&config, &endpoint),
            presigner: Presigner::new(&config, &endpoint)?,
            endpoint,
            skills: Bucket {
                // In a bucket for both, what executions leave is written.
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
            parts: Arc::new(Semaphore::new(PARTS_UNDER_WAY)),
        });
        for bucket in s3.buckets() {
            s3.prepare(bucket, &config.region).await?;
        }
        tokio::spawn(unfinished::abort_now_and_then(Arc::downgrade(&s3)));
        Ok(s3)
    }

    pub async fn get(&self, key: &BlobKey, max: u64) -> Result<Option<Bytes>, BlobError> {
        let mut reads = 1..READS;
        loop {
            let Some(reader) = self.open_blob(key).await? else { return Ok(None) };
            match (reader.into_bytes(max).await, reads.next()) {
                (Err(error @ BlobError::Io { .. }), Some(_)) => {
                    tracing::warn!(%key, %error, "reading a blob again")
                }
                (bytes, _) => return bytes.map(Some),
            }
        }
    }

    pub async fn open_blob(&self, key: &BlobKey) -> Result<Option<BlobReader>, BlobError> {
        const ACTION: &str = "read a blob";
        let bucket = self.bucket(key);
        let asked = self.client.get_object().bucket(&bucket.name).key(key.as_str()).send().await;
        let object = match asked {
            Err(error) if is_missing(&error) => return Ok(None),
            asked => asked.map_err(|error| self.failed(ACTION, bucket, &error))?,
        };
        let size = object.content_length().and_then(|length| u64::try_from(length).ok());
        let no_length = || S3Problem::Refused { answer: "an object without its length".to_owned() };
        let size = size.ok_or_else(|| BlobError::S3 { action: ACTION, problem: no_length() })?;
        Ok(Some(BlobReader { size, stream: Box::pin(object.body.into_async_read()) }))
    }

    pub async fn size(&self, key: &BlobKey) -> Result<Option<u64>, BlobError> {
        const ACTION: &str = "look for a blob";
        let bucket = self.bucket(key);
        match self.client.head_object().bucket(&bucket.name).key(key.as_str()).send().await {
            Err(error) if is_missing(&error) => Ok(None),
            asked => {
                let object = asked.map_err(|error| self.failed(ACTION, bucket, &error))?;
                Ok(object.content_length().and_then(|length| u64::try_from(length).ok()))
            }
        }
    }

    pub async fn open_range(
        &self,
        key: &BlobKey,
        start: u64,
        length: u64,
    ) -> Result<Option<BlobReader>, BlobError> {
        const ACTION: &str = "read a part of a blob";
        // A range has a last byte, and an empty one has none.
        if length == 0 {
            return Ok(Some(BlobReader { size: 0, stream: Box::pin(tokio::io::empty()) }));
        }
        let bucket = self.bucket(key);
        let range = format!("bytes={start}-{}", start.saturating_add(length - 1));
        let asked = self
            .client
            .get_object()
            .bucket(&bucket.name)
            .key(key.as_str())
            .range(range)
            .send()
            .await;
        let object = match asked {
            Err(error) if is_missing(&error) => return Ok(None),
            asked => asked.map_err(|error| self.failed(ACTION, bucket, &error))?,
        };
        // A server that does not know ranges answers with everything, and a shorter blob with what
        // it has.
        match object.content_length().and_then(|size| u64::try_from(size).ok()) == Some(length) {
            true => Ok(Some(BlobReader {
                size: length,
                stream: Box::pin(object.body.into_async_read()),
            })),
            false => Err(BlobError::too_short()),
        }
    }

    /// A blob that fits one request. The server shows it when it has all of it.
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

    pub fn presign(
        &self,
        key: &BlobKey,
        filename: &str,
        content_type: &str,
        ttl: std::time::Duration,
    ) -> Result<String, BlobError> {
        self.presigner.url(&self.bucket(key).name, key, filename, content_type, ttl)
    }

    fn bucket(&self, key: &BlobKey) -> &Bucket {
        if key.kind() == "skills" { &self.skills } else { &self.executions }
    }

    /// Those that can hold something below the prefix.
    fn buckets_below(&self, prefix: &BlobPrefix) -> Vec<&Bucket> {
        match prefix.kind() {
            None => self.buckets(),
            Some("skills") => vec![&self.skills],
            Some(_) => vec![&self.executions],
        }
    }

    /// Each once: both settings may name the same.
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

/// Whether the answer says that there is no such object; a missing bucket is another matter.
fn is_missing<E: ProvideErrorMetadata>(error: &SdkError<E>) -> bool {
    let SdkError::ServiceError(answer) = error else { return false };
    answer.raw().status().as_u16() == 404 && answer.err().code() != Some("NoSuchBucket")
}
