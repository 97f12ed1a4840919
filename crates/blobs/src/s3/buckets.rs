//! The two buckets: made when they are missing, tried out at start, asked for by readiness.

use std::time::Duration;

use aws_sdk_s3::error::ProvideErrorMetadata;
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{BucketLocationConstraint, CreateBucketConfiguration};

use super::{S3, S3Problem, client, is_missing};
use crate::BlobError;

/// Written and removed at start. No key is spelled like this, because no segment starts with a dot.
const TRIAL: &str = ".skillbox-trial";

/// Replicas that start together make the same bucket; the others wait until it is there.
const PAUSES: [Duration; 4] = [
    Duration::ZERO,
    Duration::from_millis(100),
    Duration::from_millis(500),
    Duration::from_secs(2),
];

/// Readiness is asked every few seconds.
const PING: Duration = Duration::from_secs(5);

#[derive(Debug, Clone)]
pub(crate) struct Bucket {
    pub name: String,
    /// What the operator changes to use another.
    pub setting: &'static str,
    /// Nothing is written here by this process, and its key need not be able to.
    pub read_only: bool,
}

impl S3 {
    /// Makes the bucket if it is missing, and sees that this key may do in it what it will have to.
    pub(super) async fn prepare(&self, bucket: &Bucket, region: &str) -> Result<(), BlobError> {
        match self.look(bucket).await {
            Err(BlobError::S3 { problem: S3Problem::NoBucket { .. }, .. }) => {
                self.make(bucket, region).await?
            }
            looked => looked?,
        }
        match bucket.read_only {
            true => Ok(()),
            false => self.try_out(bucket).await,
        }
    }

    pub async fn ping(&self) -> Result<(), BlobError> {
        let both = async { tokio::try_join!(self.ask(&self.skills), self.ask(&self.executions)) };
        match tokio::time::timeout(PING, both).await {
            Ok(answered) => answered.map(drop),
            Err(_) => {
                let problem = S3Problem::Silent { endpoint: self.endpoint.clone() };
                Err(BlobError::S3 { action: "reach the buckets", problem })
            }
        }
    }

    async fn ask(&self, bucket: &Bucket) -> Result<(), BlobError> {
        match self.client.head_bucket().bucket(&bucket.name).send().await {
            Ok(_) => Ok(()),
            // The answer to this question has no words; the next one's says what is wrong.
            Err(error) if error.as_service_error().is_some() => self.look(bucket).await,
            Err(error) => Err(self.failed("reach a bucket", bucket, &error)),
        }
    }

    /// Whether the bucket can be listed.
    async fn look(&self, bucket: &Bucket) -> Result<(), BlobError> {
        let listed = self
            .client
            .list_objects_v2()
            .bucket(&bucket.name)
            .prefix(TRIAL)
            .max_keys(1)
            .send()
            .await;
        listed.map_err(|error| self.failed("look into a bucket", bucket, &error))?;
        Ok(())
    }

    async fn make(&self, bucket: &Bucket, region: &str) -> Result<(), BlobError> {
        tracing::info!(bucket = bucket.name, "making a bucket");
        let taken = self.create(bucket, region).await?;
        let mut looked = Ok(());
        for pause in PAUSES {
            tokio::time::sleep(pause).await;
            looked = self.look(bucket).await;
            match &looked {
                Err(BlobError::S3 { problem: S3Problem::NoBucket { .. }, .. }) => {}
                _ => break,
            }
        }
        match looked {
            Err(BlobError::S3 {
                action,
                problem: S3Problem::NoBucket { .. } | S3Problem::Denied { .. },
            }) if taken => {
                let Bucket { name, setting, .. } = bucket.clone();
                Err(BlobError::S3 { action, problem: S3Problem::Taken { bucket: name, setting } })
            }
            looked => looked,
        }
    }

    /// True when somebody already has a bucket of this name: maybe another replica, a moment ago.
    async fn create(&self, bucket: &Bucket, region: &str) -> Result<bool, BlobError> {
        // The one region that may not be named.
        let place = (region != "us-east-1").then(|| {
            let place = BucketLocationConstraint::from(region);
            CreateBucketConfiguration::builder().location_constraint(place).build()
        });
        let create =
            self.client.create_bucket().bucket(&bucket.name).set_create_bucket_configuration(place);
        match create.send().await {
            Ok(_) => Ok(false),
            Err(error) => match error.code() {
                Some("BucketAlreadyOwnedByYou" | "OperationAborted") => Ok(false),
                Some("BucketAlreadyExists") => Ok(true),
                _ => Err(self.failed("make a bucket", bucket, &error)),
            },
        }
    }

    /// Puts, reads and removes an object. Another replica may do the same at the same time.
    async fn try_out(&self, bucket: &Bucket) -> Result<(), BlobError> {
        let (client, name) = (&self.client, &bucket.name);
        let put =
            client.put_object().bucket(name).key(TRIAL).body(TRIAL.as_bytes().to_vec().into());
        let put = put.content_type(client::CONTENT_TYPE).send().await;
        put.map_err(|error| self.failed("write to a bucket", bucket, &error))?;
        match client.get_object().bucket(name).key(TRIAL).send().await {
            Ok(object) => self.same(object.body).await?,
            Err(error) if is_missing(&error) => {}
            Err(error) => return Err(self.failed("read from a bucket", bucket, &error)),
        }
        let deleted = client.delete_object().bucket(name).key(TRIAL).send().await;
        deleted.map_err(|error| self.failed("delete from a bucket", bucket, &error))?;
        Ok(())
    }

    /// There are web servers that say yes to everything.
    async fn same(&self, body: ByteStream) -> Result<(), BlobError> {
        let read = body.collect().await.map(|body| body.into_bytes());
        if read.is_ok_and(|read| read == TRIAL.as_bytes()) {
            return Ok(());
        }
        let answer =
            "other bytes than were stored; check that s3_endpoint is an S3 server".to_owned();
        Err(BlobError::S3 { action: "read from a bucket", problem: S3Problem::Refused { answer } })
    }
}
