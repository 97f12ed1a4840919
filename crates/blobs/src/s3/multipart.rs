//! One multipart upload, run by its own task.
//!
//! The task always ends the upload: it completes it on `Finish`, and aborts it when a part fails or
//! the `MultipartHandle` is dropped. Only a process that dies leaves an upload behind (see
//! `stale_uploads.rs`).

use std::sync::Arc;

use aws_sdk_s3::error::ProvideErrorMetadata;
use aws_sdk_s3::types::{CompletedMultipartUpload, CompletedPart};
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::{JoinError, JoinHandle, JoinSet};
use uuid::Uuid;

use super::buckets::Bucket;
use super::{S3, client};
use crate::{BlobError, BlobKey};

const ACTION: &str = "store a blob";

/// The metadata field with a random id of the upload, to recognize the object that it created.
const UPLOAD_MARK: &str = "skillbox-upload";

/// The writer's side of the upload.
pub(super) struct MultipartHandle {
    s3: Arc<S3>,
    /// Unbounded, because the permits of the parts limit the number of messages.
    messages: UnboundedSender<UploadMessage>,
    task: JoinHandle<Result<(), BlobError>>,
}

enum UploadMessage {
    Part(Vec<u8>, OwnedSemaphorePermit),
    Finish,
}

impl MultipartHandle {
    pub(super) fn start(s3: Arc<S3>, key: BlobKey) -> MultipartHandle {
        let (messages, inbox) = unbounded_channel();
        let task = tokio::spawn(run_upload(s3.clone(), key, inbox));
        MultipartHandle { s3, messages, task }
    }

    /// Hands over a part; waits while too many parts are in flight.
    pub(super) async fn push(self, part: Vec<u8>) -> Result<MultipartHandle, BlobError> {
        let permit =
            self.s3.parts.clone().acquire_owned().await.expect("the semaphore is never closed");
        match self.messages.send(UploadMessage::Part(part, permit)) {
            Ok(()) => Ok(self),
            // The task has ended, and before `Finish` only a failure ends it.
            Err(_) => Err(flatten_join(self.task.await).err().unwrap_or(BlobError::Interrupted)),
        }
    }

    pub(super) async fn finish(self, last: Vec<u8>) -> Result<(), BlobError> {
        let all = self.push(last).await?;
        // If the send fails, the task has failed, and its result has the error.
        let _ = all.messages.send(UploadMessage::Finish);
        flatten_join(all.task.await)
    }
}

/// The task's side of the upload.
#[derive(Clone)]
struct MultipartUpload {
    s3: Arc<S3>,
    key: BlobKey,
    id: String,
    mark: String,
}

async fn run_upload(
    s3: Arc<S3>,
    key: BlobKey,
    inbox: UnboundedReceiver<UploadMessage>,
) -> Result<(), BlobError> {
    let upload = MultipartUpload::create(s3, key).await?;
    let done = match upload.send_parts(inbox).await {
        Ok(parts) => upload.complete(parts).await,
        Err(error) => Err(error),
    };
    if done.is_err() {
        upload.abort().await;
    }
    done
}

impl MultipartUpload {
    async fn create(s3: Arc<S3>, key: BlobKey) -> Result<MultipartUpload, BlobError> {
        let mark = Uuid::new_v4().to_string();
        let bucket = s3.bucket(&key);
        let create = s3.client.create_multipart_upload().bucket(&bucket.name).key(key.as_str());
        let create = create.content_type(client::CONTENT_TYPE).metadata(UPLOAD_MARK, &mark);
        let created = create.customize().config_override(client::upload_overrides()).send().await;
        let created = created.map_err(|error| s3.failed(ACTION, bucket, &error))?;
        let id = created.upload_id.ok_or(BlobError::Interrupted)?;
        Ok(MultipartUpload { s3, key, id, mark })
    }

    /// Sends all parts until the writer finishes; returns them in order.
    async fn send_parts(
        &self,
        mut inbox: UnboundedReceiver<UploadMessage>,
    ) -> Result<Vec<CompletedPart>, BlobError> {
        let mut sending = JoinSet::new();
        let sent = self.send_all(&mut inbox, &mut sending).await;
        // Parts must not be in flight when the upload is aborted: S3 may keep their bytes.
        sending.shutdown().await;
        let mut parts = sent?;
        parts.sort_by_key(CompletedPart::part_number);
        Ok(parts)
    }

    async fn send_all(
        &self,
        inbox: &mut UnboundedReceiver<UploadMessage>,
        sending: &mut JoinSet<Result<CompletedPart, BlobError>>,
    ) -> Result<Vec<CompletedPart>, BlobError> {
        let mut parts = Vec::new();
        let mut number = 0;
        loop {
            tokio::select! {
                message = inbox.recv() => match message {
                    Some(UploadMessage::Part(bytes, permit)) => {
                        number += 1;
                        sending.spawn(self.clone().send_part(number, bytes, permit));
                    }
                    Some(UploadMessage::Finish) => break,
                    None => return Err(BlobError::Interrupted),
                },
                Some(sent) = sending.join_next() => parts.push(flatten_join(sent)?),
            }
        }
        while let Some(sent) = sending.join_next().await {
            parts.push(flatten_join(sent)?);
        }
        Ok(parts)
    }

    async fn send_part(
        self,
        number: i32,
        bytes: Vec<u8>,
        _held_until_sent: OwnedSemaphorePermit,
    ) -> Result<CompletedPart, BlobError> {
        let bucket = self.bucket();
        let part = self.s3.client.upload_part().bucket(&bucket.name).key(self.key.as_str());
        let part = part.upload_id(&self.id).part_number(number).body(bytes.into());
        let sent = part.customize().config_override(client::upload_overrides()).send().await;
        let sent = sent.map_err(|error| self.s3.failed(ACTION, bucket, &error))?;
        Ok(CompletedPart::builder().part_number(number).set_e_tag(sent.e_tag).build())
    }

    async fn complete(&self, parts: Vec<CompletedPart>) -> Result<(), BlobError> {
        let bucket = self.bucket();
        let parts = CompletedMultipartUpload::builder().set_parts(Some(parts)).build();
        let complete =
            self.s3.client.complete_multipart_upload().bucket(&bucket.name).key(self.key.as_str());
        let complete = complete.upload_id(&self.id).multipart_upload(parts);
        match complete.customize().config_override(client::upload_overrides()).send().await {
            Ok(_) => Ok(()),
            // An earlier attempt of this request may have completed the upload, and its response
            // was lost. The object then has the id of this upload.
            Err(error) if error.code() == Some("NoSuchUpload") && self.is_stored().await => Ok(()),
            Err(error) => Err(self.s3.failed(ACTION, bucket, &error)),
        }
    }

    async fn is_stored(&self) -> bool {
        let head = self
            .s3
            .client
            .head_object()
            .bucket(&self.bucket().name)
            .key(self.key.as_str())
            .send()
            .await;
        head.is_ok_and(|head| {
            head.metadata().and_then(|metadata| metadata.get(UPLOAD_MARK)) == Some(&self.mark)
        })
    }

    async fn abort(&self) {
        if let Err(error) = self.s3.abort_upload(self.bucket(), self.key.as_str(), &self.id).await {
            tracing::warn!(key = %self.key, %error, "an unfinished upload remains until it is a day old");
        }
    }

    fn bucket(&self) -> &Bucket {
        self.s3.bucket(&self.key)
    }
}

fn flatten_join<T>(joined: Result<Result<T, BlobError>, JoinError>) -> Result<T, BlobError> {
    match joined {
        Ok(result) => result,
        Err(failed) => match failed.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down.
            Err(_) => Err(BlobError::Interrupted),
        },
    }
}
