//! The failures of the object store, as messages that name the setting to change.

use std::error::Error;

use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};

use super::buckets::Bucket;

/// The cause of a failed request. Contains no secret: only names, codes and the server's message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum S3Problem {
    #[error(
        "the object store at {endpoint} cannot be reached ({why}); check s3_endpoint, http or https, and that it is running"
    )]
    Unreachable { endpoint: String, why: String },
    #[error(
        "the object store at {endpoint} did not answer in time; check s3_endpoint and its health"
    )]
    Silent { endpoint: String },
    #[error("the object store does not know the access key; check s3_access_key")]
    AccessKey,
    #[error("the object store rejects the signature; check s3_secret_key")]
    Signature,
    #[error("this machine's clock and the object store's differ too much; synchronize them")]
    Clock,
    #[error(
        "the object store has the bucket {bucket} in another region ({answer}); check s3_region"
    )]
    Region { bucket: String, answer: String },
    #[error("the bucket {bucket} does not exist; create it, or check {setting}")]
    NoBucket { bucket: String, setting: &'static str },
    #[error(
        "the access key is not allowed to do this in the bucket {bucket}; grant the permissions listed in \
         docs/storage.md, or choose another bucket with {setting}"
    )]
    Denied { bucket: String, setting: &'static str },
    #[error("the bucket {bucket} belongs to another account; choose another name with {setting}")]
    Taken { bucket: String, setting: &'static str },
    #[error("the object store failed ({answer}); check its logs")]
    Failing { answer: String },
    #[error("the object store rejected the request ({answer})")]
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
                        "status {status} without an S3 error; check that s3_endpoint is an S3 server"
                    ),
                }
            }
            other => S3Problem::Unreachable { endpoint, why: root_cause(other) },
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

/// The root cause; the errors around it say the same with less detail.
fn root_cause(mut error: &(dyn Error + 'static)) -> String {
    while let Some(source) = error.source() {
        error = source;
    }
    printable(&error.to_string())
}

/// Makes a message from outside safe for the log: one line, limited in length.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(300).collect()
}
