//! The one place where failures become HTTP.
//!
//! The policy: the list of slugs is closed and documented; a message is one sentence for the caller
//! and holds nothing internal; what went wrong inside is logged once, under the request id, when
//! the answer is made. Another tenant's object answers exactly like a missing one. Leaf errors know
//! no HTTP; they are mapped here and nowhere else.

use axum::response::{IntoResponse, Response};
use blobs::BlobError;
use http::{HeaderValue, StatusCode, header};
use runner::{Quota, RunError};
use serde::Serialize;
use serde_json::{Value, json};
use skill::SkillError;
use store::StoreError;
use utoipa::ToSchema;

macro_rules! slugs {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:tt, $status:ident;)+) => {
        /// Every error the API can answer with.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, ToSchema)]
        pub enum Slug {
            $($(#[doc = $doc])+ #[serde(rename = $text)] $name,)+
        }

        impl Slug {
            pub const ALL: &'static [Slug] = &[$(Slug::$name),+];

            pub fn as_str(self) -> &'static str {
                match self { $(Slug::$name => $text),+ }
            }

            pub fn status(self) -> StatusCode {
                match self { $(Slug::$name => StatusCode::$status),+ }
            }

            /// What it means, for the documentation.
            pub fn meaning(self) -> &'static str {
                match self { $(Slug::$name => concat!($($doc),+).trim_ascii_start()),+ }
            }
        }
    };
}

slugs! {
    /// The request cannot be understood.
    BadRequest = "bad_request", BAD_REQUEST;
    /// The upload is not a skill.
    InvalidSkill = "invalid_skill", BAD_REQUEST;
    /// No key, or one that is unknown, expired or revoked.
    Unauthorized = "unauthorized", UNAUTHORIZED;
    /// The key may not do this.
    Forbidden = "forbidden", FORBIDDEN;
    /// There is no such thing, or it belongs to another tenant.
    NotFound = "not_found", NOT_FOUND;
    /// The route exists and does not know this method; see `Allow`.
    MethodNotAllowed = "method_not_allowed", METHOD_NOT_ALLOWED;
    /// The request body did not arrive in time.
    RequestTimeout = "request_timeout", REQUEST_TIMEOUT;
    /// The state of the thing does not allow this.
    Conflict = "conflict", CONFLICT;
    /// This version exists with other content and the tenant's versions are immutable.
    VersionExists = "version_exists", CONFLICT;
    /// The request body is larger than allowed.
    TooLarge = "too_large", PAYLOAD_TOO_LARGE;
    /// The tenant may not store that many bytes; `details` has the limit and what is stored.
    QuotaExceeded = "quota_exceeded", PAYLOAD_TOO_LARGE;
    /// The content type or encoding is not one this route reads.
    UnsupportedMediaType = "unsupported_media_type", UNSUPPORTED_MEDIA_TYPE;
    /// The idempotency key was used with another request body.
    IdempotencyMismatch = "idempotency_mismatch", UNPROCESSABLE_ENTITY;
    /// An archive entry has an absolute, escaping or otherwise unsafe path.
    UnsafePath = "unsafe_path", UNPROCESSABLE_ENTITY;
    /// An archive entry is a link.
    LinkEntry = "link_entry", UNPROCESSABLE_ENTITY;
    /// An archive entry is a device, socket or other special file.
    SpecialFile = "special_file", UNPROCESSABLE_ENTITY;
    /// Two archive entries have the same name, or names that differ only in case.
    DuplicateEntry = "duplicate_entry", UNPROCESSABLE_ENTITY;
    /// The archive unpacks to far more than it holds.
    ZipBomb = "zip_bomb", UNPROCESSABLE_ENTITY;
    /// The archive has too many entries.
    TooManyEntries = "too_many_entries", UNPROCESSABLE_ENTITY;
    /// The archive's local and central headers disagree.
    HeaderMismatch = "header_mismatch", UNPROCESSABLE_ENTITY;
    /// An archive entry is neither stored nor deflated.
    UnsupportedMethod = "unsupported_method", UNPROCESSABLE_ENTITY;
    /// An archive entry is encrypted.
    EncryptedEntry = "encrypted_entry", UNPROCESSABLE_ENTITY;
    /// There are bytes before, between or after the archive's entries.
    TrailingData = "trailing_data", UNPROCESSABLE_ENTITY;
    /// Archive entries overlap.
    OverlappingEntries = "overlapping_entries", UNPROCESSABLE_ENTITY;
    /// The tenant requires signatures, and the skill has none.
    SignatureMissing = "signature_missing", UNPROCESSABLE_ENTITY;
    /// The signature cannot be read, or is not for this name, version and content.
    SignatureInvalid = "signature_invalid", UNPROCESSABLE_ENTITY;
    /// The tenant requires signatures, and does not trust the key of this one.
    KeyUntrusted = "key_untrusted", UNPROCESSABLE_ENTITY;
    /// The tenant requires signatures, and the key of this one was revoked.
    KeyRevoked = "key_revoked", UNPROCESSABLE_ENTITY;
    /// The tenant has revoked this content.
    DigestRevoked = "digest_revoked", UNPROCESSABLE_ENTITY;
    /// The tenant requires signatures, and has accepted a later signed version before.
    Rollback = "rollback", UNPROCESSABLE_ENTITY;
    /// The scanner found what the tenant does not allow, or a reviewer rejected this content; see
    /// `details`.
    ScanRefused = "scan_refused", UNPROCESSABLE_ENTITY;
    /// Too many executions are waiting, or the memory for requests is in use; see `Retry-After`.
    TooBusy = "too_busy", TOO_MANY_REQUESTS;
    /// More executions a minute than the tenant's policy allows, or too many failed authentications
    /// from this address; see `Retry-After`.
    RateLimited = "rate_limited", TOO_MANY_REQUESTS;
    /// Our failure. The request id finds it in the log.
    Internal = "internal", INTERNAL_SERVER_ERROR;
    /// Something the server needs does not answer; see `Retry-After`.
    NotReady = "not_ready", SERVICE_UNAVAILABLE;
    /// The server is shutting down; see `Retry-After`.
    ShuttingDown = "shutting_down", SERVICE_UNAVAILABLE;
}

impl Slug {
    /// The slug of a precise refusal made elsewhere; the list stays closed.
    fn named(text: &str) -> Option<Slug> {
        Slug::ALL.iter().copied().find(|slug| slug.as_str() == text)
    }
}

/// The body of every error.
#[derive(Serialize, ToSchema)]
pub struct ErrorBody {
    pub error: Slug,
    /// One sentence for the reader.
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
}

/// A failed request.
#[derive(Debug)]
pub struct ApiError {
    slug: Slug,
    message: String,
    /// Boxed, as is the cause: most errors have neither, and every handler returns this type.
    details: Option<Box<Value>>,
    /// When it makes sense to come back.
    retry_after_s: Option<u64>,
    /// What went wrong inside; for the log only.
    cause: Option<Box<str>>,
}

impl ApiError {
    pub fn new(slug: Slug, message: impl Into<String>) -> ApiError {
        ApiError { slug, message: message.into(), details: None, retry_after_s: None, cause: None }
    }

    pub fn bad_request(message: impl Into<String>) -> ApiError {
        ApiError::new(Slug::BadRequest, message)
    }

    pub fn forbidden(message: impl Into<String>) -> ApiError {
        ApiError::new(Slug::Forbidden, message)
    }

    /// The same body for a missing object and another tenant's, whatever the object.
    pub fn not_found() -> ApiError {
        ApiError::new(Slug::NotFound, "There is no such thing here.")
    }

    /// Our own failure. The cause is logged, the caller sees only the request id.
    pub fn internal(cause: impl std::fmt::Display) -> ApiError {
        let message = "Something failed on our side. The request id finds it in the server's log.";
        ApiError { cause: Some(cause.to_string().into()), ..ApiError::new(Slug::Internal, message) }
    }

    /// Our failure, and one that is likely to pass: a database or an object store that does not
    /// answer.
    fn outage(cause: impl std::fmt::Display) -> ApiError {
        let message = "Something the server needs does not answer. Try again shortly.";
        ApiError { cause: Some(cause.to_string().into()), ..ApiError::new(Slug::NotReady, message) }
            .with_retry(1)
    }

    pub fn with_details(self, details: Value) -> ApiError {
        ApiError { details: Some(Box::new(details)), ..self }
    }

    pub fn with_retry(self, retry_after_s: u64) -> ApiError {
        ApiError { retry_after_s: Some(retry_after_s.max(1)), ..self }
    }

    pub fn slug(&self) -> Slug {
        self.slug
    }

    pub fn message(&self) -> &str {
        &self.message
    }

    /// For a caller who gets no HTTP answer: the slug and the sentence. The cause is logged, as
    /// with an answer.
    pub fn tell(self) -> (Slug, String) {
        self.log();
        (self.slug, self.message)
    }

    fn log(&self) {
        if let Some(cause) = &self.cause {
            tracing::error!(cause, "request failed");
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        self.log();
        let body = ErrorBody {
            error: self.slug,
            message: self.message,
            details: self.details.map(|details| *details),
        };
        let mut response = (self.slug.status(), axum::Json(body)).into_response();
        let headers = response.headers_mut();
        if self.slug == Slug::Unauthorized {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(seconds) = self.retry_after_s {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// An error with all its sources, for the log.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let inner_text = inner.to_string();
        if !text.ends_with(&inner_text) {
            text.push_str(": ");
            text.push_str(&inner_text);
        }
        source = inner.source();
    }
    text
}

/// A leaf's message with a full stop: leaves write for logs, where a message goes on after a colon.
fn stopped(text: &str) -> String {
    let stop = if text.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{text}{stop}")
}

/// The same with a capital, for messages that begin with a word and not with the name of a field.
fn sentence(text: &str) -> String {
    let (first, rest) = text.split_at(text.chars().next().map_or(0, char::len_utf8));
    stopped(&format!("{}{rest}", first.to_uppercase()))
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> ApiError {
        match error {
            StoreError::NotFound => ApiError::not_found(),
            StoreError::Conflict(what) => ApiError::new(Slug::Conflict, sentence(what)),
            StoreError::VersionExists => ApiError::new(
                Slug::VersionExists,
                "This version exists with other content, and this tenant's versions are immutable. Publish a new version.",
            ),
            StoreError::Cursor => {
                ApiError::bad_request("The cursor is not one this list gave out.")
            }
            StoreError::IdempotencyMismatch => RunError::IdempotencyMismatch.into(),
            other if other.is_outage() => ApiError::outage(chain(&other)),
            other => ApiError::internal(chain(&other)),
        }
    }
}

impl From<BlobError> for ApiError {
    fn from(error: BlobError) -> ApiError {
        match error.is_outage() {
            true => ApiError::outage(chain(&error)),
            false => ApiError::internal(chain(&error)),
        }
    }
}

impl From<SkillError> for ApiError {
    fn from(error: SkillError) -> ApiError {
        // A stored archive that is damaged is our failure, not the caller's.
        if matches!(error, SkillError::Digest | SkillError::Unreadable { .. }) {
            return ApiError::internal(chain(&error));
        }
        let slug = if error.too_large() {
            Slug::TooLarge
        } else if error.is_hostile() {
            Slug::named(error.slug()).unwrap_or(Slug::InvalidSkill)
        } else {
            Slug::InvalidSkill
        };
        ApiError::new(slug, sentence(&error.to_string()))
    }
}

/// How soon a caller who found no memory may ask again.
const MEMORY_RETRY_S: u64 = 1;

/// Nobody knows when somebody frees space.
const DISK_RETRY_S: u64 = 60;

fn over_quota(quota: Quota) -> ApiError {
    let Quota { name, used_bytes, limit_bytes, needed_bytes } = quota;
    let message =
        format!("{} Delete some, or ask for a larger limit.", sentence(&quota.to_string()));
    ApiError::new(Slug::QuotaExceeded, message).with_details(json!({
        "limit": name, "used_bytes": used_bytes, "limit_bytes": limit_bytes, "needed_bytes": needed_bytes,
    }))
}

impl From<RunError> for ApiError {
    fn from(error: RunError) -> ApiError {
        match error {
            RunError::UnknownSkill => ApiError::not_found(),
            RunError::NoSuchFile => ApiError::not_found(),
            RunError::FileTooLarge { limit_bytes } => {
                ApiError::new(Slug::TooLarge, format!("The file is larger than {limit_bytes} bytes."))
            }
            RunError::OverQuota(quota) => over_quota(quota),
            RunError::DiskLow => {
                let message = "The server's disk is almost full, so nothing new is accepted. Reading and deleting work.";
                ApiError::new(Slug::NotReady, message).with_retry(DISK_RETRY_S)
            }
            RunError::InvalidRequest(why) => ApiError::bad_request(stopped(&why)),
            RunError::InvalidSkill(why) => ApiError::new(Slug::InvalidSkill, sentence(&why)),
            RunError::Distrusted(distrust) => {
                let slug = Slug::named(distrust.code()).unwrap_or(Slug::SignatureInvalid);
                ApiError::new(slug, distrust.to_string())
            }
            RunError::ScanRefused(findings) => ApiError::new(
                Slug::ScanRefused,
                "The scanner found what this tenant does not allow. Mend it, or ask for an approval under the policy `review`.",
            )
            .with_details(json!({ "findings": findings })),
            RunError::Rejected => ApiError::new(Slug::ScanRefused, "A reviewer rejected exactly this content."),
            RunError::ScopeSkill => ApiError::forbidden("This key may not use this skill."),
            RunError::IdempotencyMismatch => ApiError::new(
                Slug::IdempotencyMismatch,
                "This Idempotency-Key was used with another request body. Take a new one.",
            ),
            RunError::TooBusy => {
                ApiError::new(Slug::TooBusy, "Too many executions are waiting. Try again shortly.").with_retry(1)
            }
            RunError::NoMemory => ApiError::new(
                Slug::TooBusy,
                "The server's memory for requests, or this tenant's share of it, is in use. Try again shortly.",
            )
            .with_retry(MEMORY_RETRY_S),
            RunError::ExceedsMemory { needed, most } => ApiError::new(
                Slug::TooLarge,
                format!("This takes {needed} bytes of the server's memory, and one tenant can have {most} of it (SKILLBOX_MAX_BUFFER_SIZE)."),
            ),
            RunError::QueueFull { retry_after_s } => {
                let message = "As many executions of this tenant are waiting as its policy allows. Try again shortly.";
                ApiError::new(Slug::TooBusy, message).with_retry(retry_after_s)
            }
            RunError::RateLimited { retry_after_s } => {
                let message = "This tenant asks for more executions a minute than its policy allows.";
                ApiError::new(Slug::RateLimited, message).with_retry(retry_after_s)
            }
            RunError::ShuttingDown => {
                ApiError::new(Slug::ShuttingDown, "The server is shutting down. Try again shortly.").with_retry(1)
            }
            RunError::Store(error) => error.into(),
            RunError::Blobs(error) => error.into(),
            other => ApiError::internal(chain(&other)),
        }
    }
}
