//! The client of the object store: how long it waits and how often it tries again.

use std::time::Duration;

use aws_sdk_s3::Client;
use aws_sdk_s3::config::retry::{RetryConfig, RetryPartition, TokenBucket};
use aws_sdk_s3::config::timeout::TimeoutConfig;
use aws_sdk_s3::config::{
    BehaviorVersion, Builder, Credentials, Region, RequestChecksumCalculation,
    ResponseChecksumValidation, StalledStreamProtectionConfig,
};

use super::S3Config;

/// What every object is stored as, so that nothing in a bucket is ever rendered.
pub const CONTENT_TYPE: &str = "application/octet-stream";

const CONNECT: Duration = Duration::from_secs(3);

/// Bytes that stop flowing for this long, in either direction, are given up.
const STALLED: Duration = Duration::from_secs(10);

/// For questions somebody waits for: they fail within seconds when nobody answers.
const QUESTION: Duration = Duration::from_secs(10);
const QUESTION_TRIES: u32 = 5;
const QUESTION_ALL: Duration = Duration::from_secs(20);

/// For bytes that would be lost: long enough for a part over a slow line, and for a server that
/// restarts.
const UPLOAD: Duration = Duration::from_secs(60);
const UPLOAD_TRIES: u32 = 12;
const UPLOAD_ALL: Duration = Duration::from_secs(120);

/// When the server says that it is overloaded. After other failures the client begins with 50 ms,
/// which cannot be set; each pause is a random part of twice the last.
const FIRST_BACKOFF: Duration = Duration::from_millis(200);
const LONGEST_BACKOFF: Duration = Duration::from_secs(5);

pub fn new(config: &S3Config, endpoint: &str) -> Client {
    // The default allowance of retries is small and only refilled by successes: after an outage
    // there would be none left for a while. What bounds ours is the number of tries.
    let retries = TokenBucket::builder().capacity(5000).refill_rate(100.0).build();
    let config = Builder::new()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .endpoint_url(endpoint)
        .force_path_style(true)
        .region(Region::new(config.region.clone()))
        .credentials_provider(credentials(config))
        // Many servers know no others than those the protocol demands.
        .request_checksum_calculation(RequestChecksumCalculation::WhenRequired)
        .response_checksum_validation(ResponseChecksumValidation::WhenRequired)
        .retry_partition(RetryPartition::custom("skillbox").token_bucket(retries).build())
        .retry_config(tries(QUESTION_TRIES))
        .timeout_config(timeouts(QUESTION, QUESTION_ALL))
        .stalled_stream_protection(
            StalledStreamProtectionConfig::enabled().grace_period(STALLED).build(),
        );
    Client::from_conf(config.build())
}

/// For `config_override` of a call that carries bytes.
pub fn upload_overrides() -> Builder {
    Builder::new().retry_config(tries(UPLOAD_TRIES)).timeout_config(timeouts(UPLOAD, UPLOAD_ALL))
}

pub fn credentials(config: &S3Config) -> Credentials {
    Credentials::new(&config.access_key, &config.secret_key, None, None, "skillbox")
}

fn tries(count: u32) -> RetryConfig {
    RetryConfig::standard()
        .with_max_attempts(count)
        .with_initial_backoff(FIRST_BACKOFF)
        .with_max_backoff(LONGEST_BACKOFF)
}

fn timeouts(one: Duration, all: Duration) -> TimeoutConfig {
    TimeoutConfig::builder()
        .connect_timeout(CONNECT)
        .operation_attempt_timeout(one)
        .operation_timeout(all)
        .build()
}
