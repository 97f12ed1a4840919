//! One multipart upload, carried by a task of its own.
//!
//! The task ends it in any case: it completes the upload when told to, and gives it up when a part
//! fails or when its `MultipartHandle` is dropped. Only a process that dies leaves one behind (see
//! `unfinished.rs`).

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

/// Marks the object of one upload, to know it again.
const MARK: &str = "skillbox-upload";

/// The writer's end.
pub(super) struct MultipartHandle {
    s3: Arc<S3>,
    /// Unbounded, because a part comes with its permit.
    messages: UnboundedSender<UploadMessage>,
    task: JoinHandle<Result<(), BlobError>>,
}

enum UploadMessage {
    Part(Vec<u8>, OwnedSemaphorePermit),
    Finish,
}

impl MultipartHandle {
    pub fn start(s3: Arc<S3>, key: BlobKey) -> MultipartHandle {
        let (messages, inbox) = unbounded_channel();
        let task = tokio::spawn(run_upload(s3.clone(), key, inbox));
        MultipartHandle { s3, messages, task }
    }

    /// Waits while too many parts are on their way.
    pub async fn push(self, part: Vec<u8>) -> Result<MultipartHandle, BlobError> {
        let permit =
            self.s3.parts.clone().acquire_owned().await.expect("the semaphore is never closed");
        match self.messages.send(UploadMessage::Part(part, permit)) {
            Ok(()) => Ok(self),
            // The task has ended, and only a failure ends it before it is told to.
            Err(_) => Err(joined(self.task.await).err().unwrap_or(BlobError::Interrupted)),
        }
    }

    pub async fn finish(self, last: Vec<u8>) -> Result<(), BlobError> {
        let all = self.push(last).await?;
        // If nobody hears it the task has failed, and says why.
        let _ = all.messages.send(UploadMessage::Finish);
        joined(all.task.await)
    }
}

/// The task's end.
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
        let create = create.content_type(client::CONTENT_TYPE).metadata(MARK, &mark);
        let created = create.customize().config_override(client::upload_overrides()).send().await;
        let created = created.map_err(|error| s3.failed(ACTION, bucket, &error))?;
        let id = created.upload_id.ok_or(BlobError::Interrupted)?;
        Ok(MultipartUpload { s3, key, id, mark })
    }

    /// All parts in their order, when the writer said that there are no more.
    async fn send_parts(
        &self,
        mut inbox: UnboundedReceiver<UploadMessage>,
    ) -> Result<Vec<CompletedPart>, BlobError> {
        let mut sending = JoinSet::new();
        let sent = self.send_all(&mut inbox, &mut sending).await;
        // No part may arrive after the upload was given up.
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
                Some(sent) = sending.join_next() => parts.push(joined(sent)?),
            }
        }
        while let Some(sent) = sending.join_next().await {
            parts.push(joined(sent)?);
        }
        Ok(parts)
    }

    async fn send_part(
        self,
        number: i32,
        bytes: Vec<u8>,
        _until_sent: OwnedSemaphorePermit,
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
            // Perhaps it was an earlier try of this very call that ended the upload, and its answer
            // was lost.
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
            head.metadata().and_then(|metadata| metadata.get(MARK)) == Some(&self.mark)
        })
    }

    async fn abort(&self) {
        if let Err(error) = self.s3.abort_upload(self.bucket(), self.key.as_str(), &self.id).await {
            tracing::warn!(key = %self.key, %error, "an unfinished upload stays until it is a day old");
        }
    }

    fn bucket(&self) -> &Bucket {
        self.s3.bucket(&self.key)
    }
}

fn joined<T>(ended: Result<Result<T, BlobError>, JoinError>) -> Result<T, BlobError> {
    match ended {
        Ok(result) => result,
        Err(failed) => match failed.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down.
            Err(_) => Err(BlobError::Interrupted),
        },
    }
}
