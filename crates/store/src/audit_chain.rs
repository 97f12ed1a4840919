//! The hash chain of an audit log: the hash of each entry covers the entry and the hash before it,
//! and a signed head names the last entry. Without the server's key, entries cannot be changed,
//! reordered or removed unnoticed.
//!
//! This module computes hashes. A `HeadSigner` holds the key and makes and verifies signatures.

use std::fmt::Debug;

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{AuditRecord, TenantId};

/// The first element of the hashed text: separates this scheme, and its version, from others.
const ENTRY_KIND: &str = "skillbox audit entry 1";

/// The last entry of a tenant's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditHead {
    pub tenant_id: TenantId,
    /// The number of the last entry; the first is 1.
    pub seq: i64,
    pub hash: String,
    /// How many entries were written before the chain existed.
    pub unchained: i64,
}

/// Signs heads and verifies its own signatures.
pub trait HeadSigner: Debug + Send + Sync {
    fn sign(&self, head: &AuditHead) -> String;
    fn is_authentic(&self, head: &AuditHead, signed: &str) -> bool;
}

impl AuditRecord {
    /// The hash of this entry if it follows the entry with the hash `before`.
    pub fn hash_after(&self, before: &str) -> String {
        let text = json!([
            ENTRY_KIND,
            before,
            self.seq,
            self.id,
            self.tenant,
            self.actor,
            self.action,
            self.object,
            sorted(&self.detail),
            self.request_id,
            self.created_at,
        ]);
        HEXLOWER.encode(&Sha256::digest(text.to_string()))
    }
}

/// Sorts the keys of all objects, because databases and clients may return them in another order.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> =
                fields.iter().map(|(key, value)| (key.clone(), sorted(value))).collect();
            fields.sort_by(|one, two| one.0.cmp(&two.0));
            Value::Object(fields.into_iter().collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(sorted).collect()),
        plain => plain.clone(),
    }
}
