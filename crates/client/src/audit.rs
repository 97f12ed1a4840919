//! The audit log: who changed what, as a chain with a signed head.

use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

use crate::{Client, ClientError, Listing, PageSelector, Receipt, Reply};

/// One change.
#[derive(Debug, Clone, Deserialize)]
pub struct AuditEntry {
    pub id: Uuid,
    pub tenant_id: String,
    pub actor: Option<Uuid>,
    pub action: String,
    pub object: String,
    #[serde(default)]
    pub detail: Value,
    pub request_id: Option<String>,
    pub created_at: String,
    /// Its number in the chain; absent, like the hash, in entries from before the chain.
    pub seq: Option<i64>,
    pub hash: Option<String>,
}

impl Client {
    /// Newest first.
    pub async fn audit_entries(
        &self,
        page: &PageSelector,
    ) -> Result<Listing<AuditEntry>, ClientError> {
        self.list(&["v1", "audit"], &page.query()).await
    }

    /// The signed head, sealed like a receipt. What counts is [`Reply::raw`].
    pub async fn audit_head(&self) -> Result<Reply<Receipt>, ClientError> {
        self.get(&["v1", "audit", "head"]).await
    }
}
