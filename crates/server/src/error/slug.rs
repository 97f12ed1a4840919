//! The closed list of error slugs, each with its HTTP status and its meaning.

use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

macro_rules! slugs {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:tt, $status:ident;)+) => {
        /// The machine-readable code of an error response.
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

            /// The sentence about it in the OpenAPI document.
            pub fn meaning(self) -> &'static str {
                match self { $(Slug::$name => concat!($($doc),+).trim_ascii_start()),+ }
            }
        }
    };
}

slugs! {
    /// The request is malformed or has invalid values.
    BadRequest = "bad_request", BAD_REQUEST;
    /// The upload is not a valid skill.
    InvalidSkill = "invalid_skill", BAD_REQUEST;
    /// The key is missing, unknown, expired or revoked.
    Unauthorized = "unauthorized", UNAUTHORIZED;
    /// The key does not allow this.
    Forbidden = "forbidden", FORBIDDEN;
    /// The object does not exist, or it belongs to another tenant.
    NotFound = "not_found", NOT_FOUND;
    /// The route does not support this method; see `Allow`.
    MethodNotAllowed = "method_not_allowed", METHOD_NOT_ALLOWED;
    /// The request body did not arrive in time.
    RequestTimeout = "request_timeout", REQUEST_TIMEOUT;
    /// The state of the object does not allow this.
    Conflict = "conflict", CONFLICT;
    /// This version exists with different content, and the tenant's versions are immutable.
    VersionExists = "version_exists", CONFLICT;
    /// The request body is larger than allowed.
    TooLarge = "too_large", PAYLOAD_TOO_LARGE;
    /// The tenant's storage quota would be exceeded; `details` has the limit and the stored bytes.
    QuotaExceeded = "quota_exceeded", PAYLOAD_TOO_LARGE;
    /// The route does not accept this content type or encoding.
    UnsupportedMediaType = "unsupported_media_type", UNSUPPORTED_MEDIA_TYPE;
    /// The idempotency key was already used with a different body.
    IdempotencyMismatch = "idempotency_mismatch", UNPROCESSABLE_ENTITY;
    /// An archive entry has an absolute, escaping or otherwise unsafe path.
    UnsafePath = "unsafe_path", UNPROCESSABLE_ENTITY;
    /// An archive entry is a link.
    LinkEntry = "link_entry", UNPROCESSABLE_ENTITY;
    /// An archive entry is a device, socket or other special file.
    SpecialFile = "special_file", UNPROCESSABLE_ENTITY;
    /// Two archive entries have the same name, or names that differ only in case.
    DuplicateEntry = "duplicate_entry", UNPROCESSABLE_ENTITY;
    /// The archive unpacks to far more than its compressed size.
    ZipBomb = "zip_bomb", UNPROCESSABLE_ENTITY;
    /// The archive has too many entries.
    TooManyEntries = "too_many_entries", UNPROCESSABLE_ENTITY;
    /// The archive's local and central headers differ.
    HeaderMismatch = "header_mismatch", UNPROCESSABLE_ENTITY;
    /// An archive entry uses a compression method other than stored or deflate.
    UnsupportedMethod = "unsupported_method", UNPROCESSABLE_ENTITY;
    /// An archive entry is encrypted.
    EncryptedEntry = "encrypted_entry", UNPROCESSABLE_ENTITY;
    /// There are bytes before, between or after the archive's entries.
    TrailingData = "trailing_data", UNPROCESSABLE_ENTITY;
    /// Archive entries overlap.
    OverlappingEntries = "overlapping_entries", UNPROCESSABLE_ENTITY;
    /// The tenant requires signatures, and the skill has none.
    SignatureMissing = "signature_missing", UNPROCESSABLE_ENTITY;
    /// The signature cannot be parsed, or does not match the skill's name, version and content.
    SignatureInvalid = "signature_invalid", UNPROCESSABLE_ENTITY;
    /// The tenant requires signatures, and does not trust the signing key.
    KeyUntrusted = "key_untrusted", UNPROCESSABLE_ENTITY;
    /// The tenant requires signatures, and the signing key was revoked.
    KeyRevoked = "key_revoked", UNPROCESSABLE_ENTITY;
    /// The tenant has revoked this content.
    DigestRevoked = "digest_revoked", UNPROCESSABLE_ENTITY;
    /// The tenant requires signatures, and accepted a later signed version before.
    Rollback = "rollback", UNPROCESSABLE_ENTITY;
    /// The scanner reported findings that the tenant's policy blocks, or a reviewer rejected this
    /// content; see `details`.
    ScanRefused = "scan_refused", UNPROCESSABLE_ENTITY;
    /// Too many executions are queued, or the memory for requests is in use; see `Retry-After`.
    TooBusy = "too_busy", TOO_MANY_REQUESTS;
    /// The tenant's limit of executions per minute is reached, or this address had too many failed
    /// authentications; see `Retry-After`.
    RateLimited = "rate_limited", TOO_MANY_REQUESTS;
    /// The server failed. Search its log for the request id.
    Internal = "internal", INTERNAL_SERVER_ERROR;
    /// A dependency of the server does not respond; see `Retry-After`.
    NotReady = "not_ready", SERVICE_UNAVAILABLE;
    /// The server is shutting down; see `Retry-After`.
    ShuttingDown = "shutting_down", SERVICE_UNAVAILABLE;
}

impl Slug {
    /// The slug with this text. The archive and trust checks of other crates name their codes as
    /// text; a code that is not in the list never reaches a client.
    pub(super) fn from_code(text: &str) -> Option<Slug> {
        Slug::ALL.iter().copied().find(|slug| slug.as_str() == text)
    }
}
