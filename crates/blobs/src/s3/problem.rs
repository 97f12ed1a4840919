//! Why the object store did not do it, in words that name the setting to change.

use std::error::Error;

use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};

use super::buckets::Bucket;

/// What kept the object store from doing something. Holds no secret: only names, codes and the
/// store's own sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum S3Problem {
    #[error(
        "the object store at {endpoint} cannot be reached ({why}); check s3_endpoint, its http or https, and that it runs"
    )]
    Unreachable { endpoint: String, why: String },
    #[error(
        "the object store at {endpoint} did not answer in time; check s3_endpoint and that it is well"
    )]
    Silent { endpoint: String },
    #[error("the object store does not know the access key; check s3_access_key")]
    AccessKey,
    #[error("the object store refuses our signature; check s3_secret_key")]
    Signature,
    #[error("this machine's clock and the object store's are too far apart; set them right")]
    Clock,
    #[error(
        "the object store has the bucket {bucket} in another region ({answer}); check s3_region"
    )]
    Region { bucket: String, answer: String },
    #[error("there is no bucket {bucket}; make it, or check {setting}")]
    NoBucket { bucket: String, setting: &'static str },
    #[error(
        "the access key may not do this in the bucket {bucket}; give it the permissions listed in docs/storage.md, or \
         choose a bucket of your own with {setting}"
    )]
    Denied { bucket: String, setting: &'static str },
    #[error("the bucket {bucket} is somebody else's; choose another name with {setting}")]
    Taken { bucket: String, setting: &'static str },
    #[error("the object store fails by itself ({answer}); look at its logs")]
    Failing { answer: String },
    #[error("the object store refuses it ({answer})")]
    Refused { answer: String },
}

impl S3Problem {
    pub(super) fn new<E>(error: &SdkError<E>, endpoint: &str, bucket: &Bucket) -> S3Problem
    where
        E: ProvideErrorMetadata + Error + 'static,
    {
        let endpoint = endpoint.to_owned();
        match error {
            SdkError::TimeoutError(_) => S3Problem::Silent { endpoint },
            SdkError::DispatchFailure(failure) if failure.is_timeout() => {
                S3Problem::Silent { endpoint }
            }
            SdkError::ServiceError(answer) => {
                let (status, error) = (answer.raw().status().as_u16(), answer.err());
                S3Problem::answered(status, error.code(), error.message(), bucket)
            }
            SdkError::ResponseError(answer) => {
                let status = answer.raw().status();
                S3Problem::Refused {
                    answer: format!(
                        "status {status}, and not in the words of S3; check s3_endpoint"
                    ),
                }
            }
            other => S3Problem::Unreachable { endpoint, why: innermost(other) },
        }
    }

    pub(super) fn answered(
        status: u16,
        code: Option<&str>,
        message: Option<&str>,
        bucket: &Bucket,
    ) -> S3Problem {
        let Bucket { name, setting, .. } = bucket.clone();
        let answer =
            || printable(&format!("{status} {}: {}", code.unwrap_or("-"), message.unwrap_or("-")));
        match code.unwrap_or_default() {
            "InvalidAccessKeyId" => S3Problem::AccessKey,
            "SignatureDoesNotMatch" => S3Problem::Signature,
            "RequestTimeTooSkewed" => S3Problem::Clock,
            "NoSuchBucket" => S3Problem::NoBucket { bucket: name, setting },
            "BucketAlreadyExists" => S3Problem::Taken { bucket: name, setting },
            "AuthorizationHeaderMalformed"
            | "PermanentRedirect"
            | "IllegalLocationConstraintException"
            | "InvalidLocationConstraint" => S3Problem::Region { bucket: name, answer: answer() },
            _ if status == 403 => S3Problem::Denied { bucket: name, setting },
            _ if status >= 500 => S3Problem::Failing { answer: answer() },
            _ => S3Problem::Refused { answer: answer() },
        }
    }
}

/// The first cause, for the ones around it say the same with less.
fn innermost(mut error: &(dyn Error + 'static)) -> String {
    while let Some(source) = error.source() {
        error = source;
    }
    printable(&error.to_string())
}

/// A stranger's sentence for our log: one line and not too long.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(300).collect()
}
