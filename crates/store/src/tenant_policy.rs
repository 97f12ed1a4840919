//! The policy of a tenant: its rules for skills and its limits.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::SignaturePolicy;
use crate::string_enum::string_enum;

string_enum! {
    /// Whether an uploaded version may be replaced by different content.
    #[derive(Default)]
    VersionPolicy, "version policy" {
        #[default]
        Mutable = "mutable",
        Immutable = "immutable",
    }
}

string_enum! {
    /// What happens to an upload in which the scanner finds an error.
    #[derive(Default)]
    ScanPolicy, "scan policy" {
        /// The scanner does not run.
        Off = "off",
        /// The findings are reported.
        #[default]
        Report = "report",
        /// The upload is stored and held until a reviewer approves it.
        Review = "review",
        /// The upload is rejected.
        Block = "block",
    }
}

/// The rules and limits of a tenant. A limit of `None` is no limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TenantPolicy {
    pub versions: VersionPolicy,
    pub scan: ScanPolicy,
    /// How many executions may run at once; `claim_next` leaves the rest queued.
    pub max_concurrent: Option<u32>,
    /// How many executions may be queued; `insert_within_limits` rejects the rest.
    pub max_queued: Option<u32>,
    /// How many executions may be requested per minute; see `take_rate_limit_token`.
    pub rate_per_minute: Option<u32>,
    /// The quota of uploaded files in bytes; enforced by `add_file`.
    pub max_file_bytes: Option<u64>,
    /// The storage quota in bytes; `None` means the server's default.
    pub max_stored_bytes: Option<u64>,
    /// The share of the workers relative to other waiting tenants: 1 to `MAX_WEIGHT`.
    pub weight: u32,
    /// What happens to skills without a trusted signature.
    pub signatures: SignaturePolicy,
}

impl TenantPolicy {
    pub const MAX_WEIGHT: u32 = 1000;

    /// As JSON, without the limits that are not set; for the audit log.
    pub(crate) fn set_fields(&self) -> Value {
        let mut policy = json!(self);
        if let Value::Object(fields) = &mut policy {
            fields.retain(|_, value| !value.is_null());
        }
        policy
    }
}

impl Default for TenantPolicy {
    fn default() -> TenantPolicy {
        TenantPolicy {
            versions: VersionPolicy::default(),
            scan: ScanPolicy::default(),
            max_concurrent: None,
            max_queued: None,
            rate_per_minute: None,
            max_file_bytes: None,
            max_stored_bytes: None,
            weight: 1,
            signatures: SignaturePolicy::default(),
        }
    }
}
