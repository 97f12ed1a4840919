//! Audit entries of callers, and the signatures of audit heads: like receipts, with keys derived from
//! the secret.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use skill::signature::{PublicKey, SecretKey, seal};
use store::{Actor, AuditHead, HeadSigner};

use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;

/// The kind that a signed head names.
pub const AUDIT_HEAD_KIND: &str = "skillbox audit head 1";

/// The caller as the actor of a change, in the tenant that it acts in.
pub(crate) fn actor(caller: &Caller) -> Actor {
    Actor {
        tenant: caller.tenant.clone(),
        key: caller.identity.key_id(),
        subject: caller.identity.subject().map(str::to_owned),
        request_id: caller.request_id.clone(),
    }
}

/// Adds an entry for an event without a change in the database. Entries for changes are written by
/// the store, in the transaction of the change.
pub(crate) async fn record(
    app: &App,
    caller: &Caller,
    action: &str,
    object: impl Into<String>,
    detail: Value,
) -> Result<(), ApiError> {
    let entry = actor(caller).entry(action, object, detail);
    Ok(app.store.append_audit_record(&caller.tenant, &entry).await?)
}

/// Signs heads with the key that signs receipts.
pub(crate) struct ReceiptHeadSigner {
    key: Arc<SecretKey>,
    /// The public keys of earlier generations, and of later ones: while servers are replaced, some
    /// already sign with the next key.
    accepted: Vec<PublicKey>,
}

impl ReceiptHeadSigner {
    pub(crate) fn new(key: Arc<SecretKey>, accepted: Vec<PublicKey>) -> ReceiptHeadSigner {
        ReceiptHeadSigner { key, accepted }
    }
}

impl fmt::Debug for ReceiptHeadSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReceiptHeadSigner")
    }
}

impl HeadSigner for ReceiptHeadSigner {
    fn sign(&self, head: &AuditHead) -> String {
        let payload = serde_json::to_string(head).expect("a head has only string keys");
        let comment = format!("timestamp:{}\taudit:{}", store::now() / 1_000_000, head.tenant_id);
        seal::seal(&self.key, AUDIT_HEAD_KIND, payload, &comment)
    }

    fn is_authentic(&self, head: &AuditHead, signed: &str) -> bool {
        let opened = seal::open(signed, AUDIT_HEAD_KIND, &self.accepted).ok();
        let authentic = opened.is_some_and(|opened| {
            serde_json::from_str(&opened.payload).is_ok_and(|signed: AuditHead| signed == *head)
        });
        if !authentic {
            tracing::error!(tenant = %head.tenant_id, seq = head.seq, "the head of the audit log has no valid signature of this installation");
        }
        authentic
    }
}
