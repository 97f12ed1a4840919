//! The two buckets: created when missing, tested at start, probed by readiness.

use std::time::Duration;

use aws_sdk_s3::error::ProvideErrorMetadata;
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{BucketLocationConstraint, CreateBucketConfiguration};

use super::{S3, S3Problem, client, is_missing};
use crate::BlobError;

/// The object that is written and deleted at start. It cannot collide with a blob key, because no
/// segment starts with a dot.
const TEST_OBJECT: &str = ".skillbox-trial";

/// The delays between checks for a new bucket. Of replicas that start together one creates it; the
/// others wait until it is visible.
const VISIBILITY_CHECK_DELAYS: [Duration; 4] = [
    Duration::ZERO,
    Duration::from_millis(100),
    Duration::from_millis(500),
    Duration::from_secs(2),
];

/// Readiness is probed every few seconds, so the answer must not take longer.
const PING_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug, Clone)]
pub(crate) struct Bucket {
    pub name: String,
    /// The setting that names this bucket, for error messages.
    pub setting: &'static str,
    /// This process never writes here, and its access key need not allow it.
    pub read_only: bool,
}

impl S3 {
    /// Creates the bucket if it is missing, and checks that the access key has all permissions.
    pub(super) async fn prepare(&self, bucket: &Bucket, region: &str) -> Result<(), BlobError> {
        match self.check_listing(bucket).await {
            Err(BlobError::S3 { problem: S3Problem::NoBucket { .. }, .. }) => {
                self.create_and_wait(bucket, region).await?
            }
            listed => listed?,
        }
        match bucket.read_only {
            true => Ok(()),
            false => self.test_access(bucket).await,
        }
    }

    pub(crate) async fn ping(&self) -> Result<(), BlobError> {
        let both =
            async { tokio::try_join!(self.probe(&self.skills), self.probe(&self.executions)) };
        match tokio::time::timeout(PING_TIMEOUT, both).await {
            Ok(answered) => answered.map(drop),
            Err(_) => {
                let problem = S3Problem::Silent { endpoint: self.endpoint.clone() };
                Err(BlobError::S3 { action: "reach the buckets", problem })
            }
        }
    }

    async fn probe(&self, bucket: &Bucket) -> Result<(), BlobError> {
        match self.client.head_bucket().bucket(&bucket.name).send().await {
            Ok(_) => Ok(()),
            // A HEAD response has no body and thus no error code. Listing returns one.
            Err(error) if error.as_service_error().is_some() => self.check_listing(bucket).await,
            Err(error) => Err(self.failed("reach a bucket", bucket, &error)),
        }
    }

    /// Checks that the bucket can be listed.
    async fn check_listing(&self, bucket: &Bucket) -> Result<(), BlobError> {
        let listed = self
            .client
            .list_objects_v2()
            .bucket(&bucket.name)
            .prefix(TEST_OBJECT)
            .max_keys(1)
            .send()
            .await;
        listed.map_err(|error| self.failed("list a bucket", bucket, &error))?;
        Ok(())
    }

    async fn create_and_wait(&self, bucket: &Bucket, region: &str) -> Result<(), BlobError> {
        tracing::info!(bucket = bucket.name, "creating a bucket");
        let taken = self.create(bucket, region).await?;
        let mut listed = Ok(());
        for delay in VISIBILITY_CHECK_DELAYS {
            tokio::time::sleep(delay).await;
            listed = self.check_listing(bucket).await;
            match &listed {
                Err(BlobError::S3 { problem: S3Problem::NoBucket { .. }, .. }) => {}
                _ => break,
            }
        }
        match listed {
            Err(BlobError::S3 {
                action,
                problem: S3Problem::NoBucket { .. } | S3Problem::Denied { .. },
            }) if taken => {
                let Bucket { name, setting, .. } = bucket.clone();
                Err(BlobError::S3 { action, problem: S3Problem::Taken { bucket: name, setting } })
            }
            listed => listed,
        }
    }

    /// Creates the bucket. True when the name is taken: by another customer of the object store, or
    /// by another replica a moment ago. Whether the bucket can be used decides which.
    async fn create(&self, bucket: &Bucket, region: &str) -> Result<bool, BlobError> {
        // us-east-1 is the default region, and S3 rejects it as an explicit constraint.
        let location = (region != "us-east-1").then(|| {
            let region = BucketLocationConstraint::from(region);
            CreateBucketConfiguration::builder().location_constraint(region).build()
        });
        let create = self
            .client
            .create_bucket()
            .bucket(&bucket.name)
            .set_create_bucket_configuration(location);
        match create.send().await {
            Ok(_) => Ok(false),
            Err(error) => match error.code() {
                Some("BucketAlreadyOwnedByYou" | "OperationAborted") => Ok(false),
                Some("BucketAlreadyExists") => Ok(true),
                _ => Err(self.failed("create a bucket", bucket, &error)),
            },
        }
    }

    /// Writes, reads and deletes an object. Another replica may do the same at the same time, so a
    /// missing object is no failure.
    async fn test_access(&self, bucket: &Bucket) -> Result<(), BlobError> {
        let (client, name) = (&self.client, &bucket.name);
        let put = client
            .put_object()
            .bucket(name)
            .key(TEST_OBJECT)
            .body(TEST_OBJECT.as_bytes().to_vec().into());
        let put = put.content_type(client::CONTENT_TYPE).send().await;
        put.map_err(|error| self.failed("write to a bucket", bucket, &error))?;
        match client.get_object().bucket(name).key(TEST_OBJECT).send().await {
            Ok(object) => self.check_test_object(object.body).await?,
            Err(error) if is_missing(&error) => {}
            Err(error) => return Err(self.failed("read from a bucket", bucket, &error)),
        }
        let deleted = client.delete_object().bucket(name).key(TEST_OBJECT).send().await;
        deleted.map_err(|error| self.failed("delete from a bucket", bucket, &error))?;
        Ok(())
    }

    /// Some web servers answer every request with success; only the content proves an S3 server.
    async fn check_test_object(&self, body: ByteStream) -> Result<(), BlobError> {
        let read = body.collect().await.map(|body| body.into_bytes());
        if read.is_ok_and(|read| read == TEST_OBJECT.as_bytes()) {
            return Ok(());
        }
        let answer =
            "the content differs from what was stored; check that s3_endpoint is an S3 server"
                .to_owned();
        Err(BlobError::S3 { action: "read from a bucket", problem: S3Problem::Refused { answer } })
    }
}
