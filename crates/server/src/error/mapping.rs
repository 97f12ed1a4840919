//! How the errors of the leaf crates become API errors.

use admission::{DiskLow, PermitError};
use blobs::BlobError;
use catalogue::{CatalogueError, StorageQuota};
use runner::RunError;
use serde_json::json;
use skill::SkillError;
use store::StoreError;

use super::text::{as_sentence, with_full_stop};
use super::{ApiError, Slug, error_chain};

/// Request memory is released within moments, when other requests end.
const MEMORY_RETRY_AFTER_S: u64 = 1;
/// Disk space is freed by retention or an operator, so an early retry is pointless.
const DISK_RETRY_AFTER_S: u64 = 60;

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> ApiError {
        match error {
            // The store does not know the name that the client sent. Handlers that look an object
            // up by name report it themselves; this is one that was deleted during the request.
            StoreError::NotFound => ApiError::new(
                Slug::NotFound,
                "The object was not found. It may have been deleted during the request.",
            ),
            StoreError::Conflict(reason) => ApiError::new(Slug::Conflict, as_sentence(reason)),
            StoreError::VersionExists => ApiError::new(
                Slug::VersionExists,
                "This version exists with different content, and the tenant's versions are immutable. Publish a new version.",
            ),
            StoreError::InvalidCursor => ApiError::bad_request("The cursor is not from this list."),
            StoreError::IdempotencyMismatch => RunError::IdempotencyMismatch.into(),
            other if other.is_outage() => ApiError::unavailable(error_chain(&other)),
            other => ApiError::internal(error_chain(&other)),
        }
    }
}

impl From<BlobError> for ApiError {
    fn from(error: BlobError) -> ApiError {
        match error.is_outage() {
            true => ApiError::unavailable(error_chain(&error)),
            false => ApiError::internal(error_chain(&error)),
        }
    }
}

impl From<SkillError> for ApiError {
    fn from(error: SkillError) -> ApiError {
        // A damaged stored archive is the server's failure, not the caller's.
        if matches!(error, SkillError::Digest | SkillError::Unreadable { .. }) {
            return ApiError::internal(error_chain(&error));
        }
        let slug = if error.is_too_large() {
            Slug::TooLarge
        } else if error.is_hostile() {
            Slug::from_code(error.slug()).unwrap_or(Slug::InvalidSkill)
        } else {
            Slug::InvalidSkill
        };
        ApiError::new(slug, as_sentence(&error.to_string()))
    }
}

impl From<PermitError> for ApiError {
    fn from(error: PermitError) -> ApiError {
        match error {
            PermitError::InUse => ApiError::new(
                Slug::TooBusy,
                "The server's memory for requests, or this tenant's share of it, is in use. Try again shortly.",
            )
            .with_retry_after(MEMORY_RETRY_AFTER_S),
            PermitError::ExceedsShare { needed, max } => ApiError::new(
                Slug::TooLarge,
                format!(
                    "The request needs {needed} bytes of memory, and one tenant may use {max} (SKILLBOX_MAX_BUFFER_SIZE)."
                ),
            ),
        }
    }
}

impl From<DiskLow> for ApiError {
    fn from(DiskLow: DiskLow) -> ApiError {
        ApiError::new(
            Slug::NotReady,
            "The server's disk is almost full, so writes are refused. Reading and deleting work.",
        )
        .with_retry_after(DISK_RETRY_AFTER_S)
    }
}

impl From<CatalogueError> for ApiError {
    fn from(error: CatalogueError) -> ApiError {
        match error {
            CatalogueError::InvalidFile(reason) => ApiError::bad_request(with_full_stop(&reason)),
            CatalogueError::WorkersBusy => ApiError::new(
                Slug::TooBusy,
                "The threads that check schemas are busy. Try again shortly.",
            )
            .with_retry_after(1),
            CatalogueError::NoSuchFile => ApiError::new(
                Slug::NotFound,
                "The file was not found. It may have been deleted during the request.",
            ),
            CatalogueError::FileTooLarge { limit_bytes } => ApiError::new(
                Slug::TooLarge,
                format!("The file is larger than {limit_bytes} bytes."),
            ),
            CatalogueError::InvalidSkill(reason) => {
                ApiError::new(Slug::InvalidSkill, as_sentence(&reason))
            }
            CatalogueError::Untrusted(problem) => {
                let slug = Slug::from_code(problem.code()).unwrap_or(Slug::SignatureInvalid);
                ApiError::new(slug, problem.to_string())
            }
            CatalogueError::ScanRefused(findings) => ApiError::new(
                Slug::ScanRefused,
                "The scanner reported findings that this tenant's policy blocks. Fix them, or use the policy `review` to approve them.",
            )
            .with_details(json!({ "findings": findings })),
            CatalogueError::Rejected => {
                ApiError::new(Slug::ScanRefused, "A reviewer rejected exactly this content.")
            }
            CatalogueError::OverQuota(quota) => quota_exceeded(quota),
            CatalogueError::Memory(error) => error.into(),
            CatalogueError::DiskLow(error) => error.into(),
            CatalogueError::Store(error) => error.into(),
            CatalogueError::Blobs(error) => error.into(),
            error @ (CatalogueError::Archive(_) | CatalogueError::TaskPanicked) => {
                ApiError::internal(error_chain(&error))
            }
        }
    }
}

impl From<RunError> for ApiError {
    fn from(error: RunError) -> ApiError {
        match error {
            RunError::UnknownSkill => ApiError::new(Slug::NotFound, "The skill was not found."),
            RunError::OverQuota(quota) => quota_exceeded(quota),
            RunError::InvalidRequest(reason) => ApiError::bad_request(with_full_stop(&reason)),
            RunError::ScopeSkill => ApiError::forbidden("This key may not use this skill."),
            RunError::IdempotencyMismatch => ApiError::new(
                Slug::IdempotencyMismatch,
                "The Idempotency-Key was already used with a different body. Use a new key.",
            ),
            RunError::TooBusy => {
                ApiError::new(Slug::TooBusy, "Too many executions are queued. Try again shortly.")
                    .with_retry_after(1)
            }
            RunError::QueueFull { retry_after_s } => ApiError::new(
                Slug::TooBusy,
                "This tenant has as many queued executions as its policy allows. Try again shortly.",
            )
            .with_retry_after(retry_after_s),
            RunError::RateLimited { retry_after_s } => ApiError::new(
                Slug::RateLimited,
                "This tenant has reached its limit of executions per minute. Try again later.",
            )
            .with_retry_after(retry_after_s),
            RunError::ShuttingDown => ApiError::new(
                Slug::ShuttingDown,
                "The server is shutting down. Try again shortly.",
            )
            .with_retry_after(1),
            RunError::Memory(error) => error.into(),
            RunError::DiskLow(error) => error.into(),
            RunError::Store(error) => error.into(),
            RunError::Blobs(error) => error.into(),
            error @ RunError::Broken => ApiError::internal(error_chain(&error)),
        }
    }
}

fn quota_exceeded(quota: StorageQuota) -> ApiError {
    let StorageQuota { name, used_bytes, limit_bytes, needed_bytes } = quota;
    let message = format!(
        "{} Delete stored objects, or ask the operator for a larger limit.",
        as_sentence(&quota.to_string())
    );
    ApiError::new(Slug::QuotaExceeded, message).with_details(json!({
        "limit": name, "used_bytes": used_bytes, "limit_bytes": limit_bytes, "needed_bytes": needed_bytes,
    }))
}
