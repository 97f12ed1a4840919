//! The audit log: who changed what. Entries are only added, in the transaction that makes the
//! change, and chained by their hashes (`audit_chain`).

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use crate::audit_chain::AuditHead;
use crate::page::time_cursor;
use crate::row::Row;
use crate::sql::sql;
use crate::{HeadSigner, Micros, PageRequest, Store, StoreError, TenantId};

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AuditRecord {
    pub id: Uuid,
    pub tenant: TenantId,
    /// The API key of the actor; absent for actions of the server itself.
    pub actor: Option<Uuid>,
    pub action: String,
    pub object: String,
    pub detail: Value,
    pub request_id: Option<String>,
    pub created_at: Micros,
    /// The number in the chain, from 1; absent in entries from before the chain existed.
    pub seq: Option<i64>,
    pub hash: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct NewAuditRecord {
    pub actor: Option<Uuid>,
    pub action: String,
    pub object: String,
    pub detail: Value,
    pub request_id: Option<String>,
}

/// The actor of a change, and the tenant whose log gets the entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor {
    pub tenant: TenantId,
    pub key: Option<Uuid>,
    /// The subject of a bearer token, which has no row that `key` could refer to.
    pub subject: Option<String>,
    pub request_id: Option<String>,
}

/// The stored head of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredAuditHead {
    pub head: AuditHead,
    /// The signature; absent when the previous head was not authentic, because a log that was
    /// changed from outside must not be signed.
    pub signed: Option<String>,
}

impl AuditRecord {
    /// For `PageRequest::after`, to continue after this row.
    pub fn cursor(&self) -> String {
        time_cursor(self.created_at, self.id)
    }

    fn from_row(row: &Row) -> Result<AuditRecord, StoreError> {
        Ok(AuditRecord {
            id: row.parse("id")?,
            tenant: row.parse("tenant")?,
            actor: row.parse_opt("actor")?,
            action: row.get("action")?,
            object: row.get("object")?,
            detail: row.json("detail")?,
            request_id: row.get("request_id")?,
            created_at: row.get("created_at")?,
            seq: row.get("seq")?,
            hash: row.get("hash")?,
        })
    }
}

impl StoredAuditHead {
    pub(crate) fn from_row(row: &Row) -> Result<StoredAuditHead, StoreError> {
        let head = AuditHead {
            tenant_id: row.parse("tenant")?,
            seq: row.get("seq")?,
            hash: row.get("hash")?,
            unchained: row.get("unchained")?,
        };
        Ok(StoredAuditHead { head, signed: row.get("signed")? })
    }
}

impl Actor {
    /// An audit entry for a change of this actor.
    pub fn entry(
        &self,
        action: &str,
        object: impl Into<String>,
        mut detail: Value,
    ) -> NewAuditRecord {
        if let (Some(subject), Value::Object(detail)) = (&self.subject, &mut detail) {
            detail.insert("subject".into(), subject.as_str().into());
        }
        NewAuditRecord {
            actor: self.key,
            action: action.to_owned(),
            object: object.into(),
            detail,
            request_id: self.request_id.clone(),
        }
    }
}

impl Store {
    /// This store for the changes of an actor: each adds an audit entry in its own transaction.
    /// Changes through a store without an actor are the server's own, such as creating the first
    /// API key, and add none.
    pub fn with_actor(&self, actor: Actor) -> Store {
        Store { actor: Some(Arc::new(actor)), ..self.clone() }
    }

    /// This store with a signer for new heads.
    pub fn with_head_signer(&self, signer: Arc<dyn HeadSigner>) -> Store {
        Store { head_signer: Some(signer), ..self.clone() }
    }

    /// Newest first.
    pub async fn list_audit_records(
        &self,
        tenant: &TenantId,
        page: &PageRequest,
    ) -> Result<Vec<AuditRecord>, StoreError> {
        let select = sql("SELECT id, tenant, actor, action, object, detail, request_id, \
             created_at, seq, hash FROM audit WHERE tenant = $1")
        .bind(tenant);
        let rows = self.db.read(page.newest_first(select)?).await?;
        rows.iter().map(AuditRecord::from_row).collect()
    }

    /// The head of a tenant's log; `None` before its first entry.
    pub async fn audit_head(
        &self,
        tenant: &TenantId,
    ) -> Result<Option<StoredAuditHead>, StoreError> {
        let select =
            sql("SELECT tenant, seq, hash, unchained, signed FROM audit_heads WHERE tenant = $1")
                .bind(tenant);
        let row = self.db.read_one(select).await?;
        row.as_ref().map(StoredAuditHead::from_row).transpose()
    }
}
