//! Where bytes go, and for how long things are kept.

use std::time::Duration;

use super::ConfigError;
use super::parse::{base_url, bucket, flag, header_word, period};
use super::reader::{SettingReader, invalid};

/// An object store. Not `Debug`: it holds a secret.
#[derive(Clone)]
pub struct S3Settings {
    /// With its scheme, without a trailing slash.
    pub endpoint: String,
    pub access_key: String,
    pub secret_key: String,
    pub bucket_skills: String,
    pub bucket_executions: String,
    pub region: String,
    /// What presigned URLs start with, when callers reach the store under another address than we
    /// do.
    pub public_url: Option<String>,
}

/// How long what has ended is kept; `None` is for ever.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Retention {
    pub executions: Option<Duration>,
    pub logs: Option<Duration>,
    pub artifacts: Option<Duration>,
}

impl From<Retention> for runner::Retention {
    fn from(Retention { executions, logs, artifacts }: Retention) -> runner::Retention {
        runner::Retention { executions, logs, artifacts }
    }
}

impl S3Settings {
    /// `None` when no endpoint is given: blobs then lie in the data directory.
    pub(super) fn read(read: &SettingReader<'_>) -> Result<Option<S3Settings>, ConfigError> {
        let Some(given) = read.optional("s3_endpoint", |text| Ok(text.to_owned()))? else {
            let stray = ["s3_access_key", "s3_secret_key", "s3_use_ssl", "s3_public_url"];
            return match stray.into_iter().find(|key| read.is_given(key)) {
                Some(key) => Err(invalid(key, "means nothing without SKILLBOX_S3_ENDPOINT")),
                None => Ok(None),
            };
        };
        let needed = |key: &str| {
            let value = read.optional(key, header_word)?;
            value.ok_or_else(|| invalid(key, "must be given, because SKILLBOX_S3_ENDPOINT is"))
        };
        Ok(Some(S3Settings {
            endpoint: endpoint(read, &given)?,
            access_key: needed("s3_access_key")?,
            secret_key: needed("s3_secret_key")?,
            bucket_skills: read.get("s3_bucket_skills", bucket)?,
            bucket_executions: read.get("s3_bucket_executions", bucket)?,
            region: read.get("s3_region", header_word)?,
            public_url: read.optional("s3_public_url", base_url)?,
        }))
    }
}

/// The scheme stands in the endpoint or follows from `s3_use_ssl`; the two must not disagree.
fn endpoint(read: &SettingReader<'_>, given: &str) -> Result<String, ConfigError> {
    let ssl = read.optional("s3_use_ssl", flag)?;
    let scheme = if ssl.unwrap_or(true) { "https" } else { "http" };
    let url = match given.split_once("://") {
        None => format!("{scheme}://{given}"),
        Some((named, _)) if ssl.is_some() && named != scheme => {
            return Err(invalid(
                "s3_use_ssl",
                format!("contradicts SKILLBOX_S3_ENDPOINT, which says `{named}://`"),
            ));
        }
        Some(_) => given.to_owned(),
    };
    base_url(&url).map_err(|_| {
        invalid("s3_endpoint", "is not an address such as https://s3.example.com or minio:9000")
    })
}

impl Retention {
    /// An execution's logs and artifacts never outlive it.
    pub(super) fn read(read: &SettingReader<'_>) -> Result<Retention, ConfigError> {
        let executions = read.get("retention_executions", period)?;
        let part = |key: &str| {
            let part = read.optional(key, period)?.unwrap_or(executions);
            match (part, executions) {
                (None, Some(_)) => {
                    Err(invalid(key, "is longer than SKILLBOX_RETENTION_EXECUTIONS"))
                }
                (Some(part), Some(whole)) if part > whole => {
                    Err(invalid(key, "is longer than SKILLBOX_RETENTION_EXECUTIONS"))
                }
                _ => Ok(part),
            }
        };
        Ok(Retention {
            executions,
            logs: part("retention_logs")?,
            artifacts: part("retention_artifacts")?,
        })
    }
}
