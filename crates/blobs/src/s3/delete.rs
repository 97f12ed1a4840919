//! Deleting objects, one or all below a prefix.

use aws_sdk_s3::types::{Delete, ObjectIdentifier};

use super::buckets::Bucket;
use super::{S3, S3Problem};
use crate::{BlobError, BlobKey, BlobPrefix};

const ACTION: &str = "delete blobs";

impl S3 {
    pub(crate) async fn delete(&self, key: &BlobKey) -> Result<(), BlobError> {
        self.delete_object(self.bucket(key), key.as_str()).await
    }

    /// Deletes page by page: an interrupted call has deleted some objects and can be repeated.
    pub(crate) async fn delete_prefix(&self, prefix: &BlobPrefix) -> Result<(), BlobError> {
        // Without the slash, keys with a longer last segment would match too.
        let below = format!("{}/", prefix.as_str());
        for bucket in self.buckets_below(prefix) {
            let list = self.client.list_objects_v2().bucket(&bucket.name).prefix(&below);
            let mut pages = list.into_paginator().send();
            while let Some(page) = pages.next().await {
                let page = page.map_err(|error| self.failed(ACTION, bucket, &error))?;
                let names =
                    page.contents.unwrap_or_default().into_iter().filter_map(|object| object.key);
                self.delete_objects(bucket, names.collect()).await?;
            }
        }
        Ok(())
    }

    /// Deletes in one request, and one by one where a server does not support that. If the failure
    /// had another cause, the simple request reports it more clearly.
    async fn delete_objects(&self, bucket: &Bucket, names: Vec<String>) -> Result<(), BlobError> {
        if names.is_empty() {
            return Ok(());
        }
        let ids = names
            .iter()
            .filter_map(|name| ObjectIdentifier::builder().key(name).build().ok())
            .collect();
        let all = Delete::builder().set_objects(Some(ids)).quiet(true).build().ok();
        match self.client.delete_objects().bucket(&bucket.name).set_delete(all).send().await {
            Ok(answer) => match answer.errors().first() {
                None => Ok(()),
                Some(error) => {
                    let problem = S3Problem::answered(200, error.code(), error.message(), bucket);
                    Err(BlobError::S3 { action: ACTION, problem })
                }
            },
            Err(error) if error.as_service_error().is_some() => {
                for name in &names {
                    self.delete_object(bucket, name).await?;
                }
                Ok(())
            }
            Err(error) => Err(self.failed(ACTION, bucket, &error)),
        }
    }

    async fn delete_object(&self, bucket: &Bucket, name: &str) -> Result<(), BlobError> {
        let deleted = self.client.delete_object().bucket(&bucket.name).key(name).send().await;
        deleted.map_err(|error| self.failed(ACTION, bucket, &error))?;
        Ok(())
    }
}
