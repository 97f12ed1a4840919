//! The S3 client: its timeouts and retries.

use std::time::Duration;

use aws_sdk_s3::Client;
use aws_sdk_s3::config::retry::{RetryConfig, RetryPartition, TokenBucket};
use aws_sdk_s3::config::timeout::TimeoutConfig;
use aws_sdk_s3::config::{
    BehaviorVersion, Builder, Credentials, Region, RequestChecksumCalculation,
    ResponseChecksumValidation, StalledStreamProtectionConfig,
};

use super::S3Config;

/// The content type of every object: a browser downloads it and never renders it.
pub(super) const CONTENT_TYPE: &str = "application/octet-stream";

const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// A body that makes no progress for this long, in either direction, fails.
const STALL_GRACE_PERIOD: Duration = Duration::from_secs(10);

/// For requests that a client waits for: they fail within seconds when the server does not answer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_REQUEST_ATTEMPTS: u32 = 5;
const TOTAL_REQUEST_TIMEOUT: Duration = Duration::from_secs(20);

/// For uploads, whose bytes would be lost: long enough for a part over a slow line, and for a
/// restart of the server.
const UPLOAD_TIMEOUT: Duration = Duration::from_secs(60);
const MAX_UPLOAD_ATTEMPTS: u32 = 12;
const TOTAL_UPLOAD_TIMEOUT: Duration = Duration::from_secs(120);

/// The backoff when the server throttles. After other failures the client starts with 50 ms, which
/// cannot be configured. Each delay is random, up to twice the one before.
const INITIAL_BACKOFF: Duration = Duration::from_millis(200);
const MAX_BACKOFF: Duration = Duration::from_secs(5);

pub(super) fn new(config: &S3Config, endpoint: &str) -> Client {
    // The SDK's default retry budget is small and refilled only by successes: after an outage there
    // would be no retries for a while. Ours are limited by the number of attempts instead.
    let retry_budget = TokenBucket::builder().capacity(5000).refill_rate(100.0).build();
    let config = Builder::new()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .endpoint_url(endpoint)
        .force_path_style(true)
        .region(Region::new(config.region.clone()))
        .credentials_provider(credentials(config))
        // Many servers do not support the optional checksums of newer SDKs.
        .request_checksum_calculation(RequestChecksumCalculation::WhenRequired)
        .response_checksum_validation(ResponseChecksumValidation::WhenRequired)
        .retry_partition(RetryPartition::custom("skillbox").token_bucket(retry_budget).build())
        .retry_config(retries(MAX_REQUEST_ATTEMPTS))
        .timeout_config(timeouts(REQUEST_TIMEOUT, TOTAL_REQUEST_TIMEOUT))
        .stalled_stream_protection(
            StalledStreamProtectionConfig::enabled().grace_period(STALL_GRACE_PERIOD).build(),
        );
    Client::from_conf(config.build())
}

/// For `config_override` of an upload request.
pub(super) fn upload_overrides() -> Builder {
    Builder::new()
        .retry_config(retries(MAX_UPLOAD_ATTEMPTS))
        .timeout_config(timeouts(UPLOAD_TIMEOUT, TOTAL_UPLOAD_TIMEOUT))
}

pub(super) fn credentials(config: &S3Config) -> Credentials {
    Credentials::new(&config.access_key, &config.secret_key, None, None, "skillbox")
}

fn retries(max_attempts: u32) -> RetryConfig {
    RetryConfig::standard()
        .with_max_attempts(max_attempts)
        .with_initial_backoff(INITIAL_BACKOFF)
        .with_max_backoff(MAX_BACKOFF)
}

fn timeouts(attempt: Duration, total: Duration) -> TimeoutConfig {
    TimeoutConfig::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .operation_attempt_timeout(attempt)
        .operation_timeout(total)
        .build()
}
