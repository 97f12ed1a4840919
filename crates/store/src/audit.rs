//! The audit log: who changed what. Rows are only ever added, in the transaction that makes the
//! change, and chained by their hashes (`audit_chain`).

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use crate::audit_chain::AuditHead;
use crate::db::Tx;
use crate::page::age_cursor;
use crate::row::Row;
use crate::sql::{Sql, sql};
use crate::{HeadSigner, Micros, PageRequest, Store, StoreError, TenantId, now};

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AuditRecord {
    pub id: Uuid,
    pub tenant: TenantId,
    /// The key that acted; absent when the server itself did.
    pub actor: Option<Uuid>,
    pub action: String,
    pub object: String,
    pub detail: Value,
    pub request_id: Option<String>,
    pub created_at: Micros,
    /// Its number in the chain, from 1; absent in entries of earlier versions.
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

/// Who makes a change, and in whose log it is entered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor {
    pub tenant: TenantId,
    pub key: Option<Uuid>,
    /// Of a token, which has no row that could be pointed to.
    pub subject: Option<String>,
    pub request_id: Option<String>,
}

/// The head of a log as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredAuditHead {
    pub head: AuditHead,
    /// Absent when the head before it was not authentic: what somebody else changed is never
    /// signed.
    pub signed: Option<String>,
}

impl AuditRecord {
    /// What `PageRequest::after` takes to continue behind this row.
    pub fn cursor(&self) -> String {
        age_cursor(self.created_at, self.id)
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
    fn from_row(row: &Row) -> Result<StoredAuditHead, StoreError> {
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
    /// The entry for a change that this actor makes.
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
    /// This store for changes that the actor makes: each is entered in the log, in its own
    /// transaction. Changes through a store without an actor are the server's own, such as the
    /// first key, and are not.
    pub fn with_actor(&self, actor: Actor) -> Store {
        Store { actor: Some(Arc::new(actor)), ..self.clone() }
    }

    /// This store with the signer of all heads to come.
    pub fn with_head_signer(&self, signer: Arc<dyn HeadSigner>) -> Store {
        Store { head_signer: Some(signer), ..self.clone() }
    }

    /// Adds an entry that tells of no change in the database.
    pub async fn append_audit_record(
        &self,
        tenant: &TenantId,
        new: &NewAuditRecord,
    ) -> Result<(), StoreError> {
        let mut tx = self.db.begin().await?;
        self.append(&mut tx, tenant, new).await?;
        tx.commit().await
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

    /// Enters a change of the actor, if there is one. Called last in a transaction: the head is
    /// locked from here to the commit, and locks that are taken in one order cannot wait for each
    /// other.
    pub(crate) async fn record(
        &self,
        tx: &mut Tx,
        action: &str,
        object: impl ToString,
        detail: Value,
    ) -> Result<(), StoreError> {
        match &self.actor {
            Some(actor) => {
                self.append(tx, &actor.tenant, &actor.entry(action, object.to_string(), detail))
                    .await
            }
            None => Ok(()),
        }
    }

    /// Runs a statement; if it changed anything, that is entered as `(action, object)`. Answers
    /// whether it did.
    pub(crate) async fn write_recorded(
        &self,
        statement: Sql<'_>,
        (action, object): (&str, impl ToString),
        detail: Value,
    ) -> Result<bool, StoreError> {
        let mut tx = self.db.begin().await?;
        let changed = tx.write(statement).await? > 0;
        if changed {
            self.record(&mut tx, action, object, detail).await?;
        }
        tx.commit().await?;
        Ok(changed)
    }

    pub(crate) async fn append(
        &self,
        tx: &mut Tx,
        tenant: &TenantId,
        new: &NewAuditRecord,
    ) -> Result<(), StoreError> {
        let before = lock_head(tx, tenant).await?;
        let mut entry = AuditRecord {
            id: Uuid::now_v7(),
            tenant: tenant.clone(),
            actor: new.actor,
            action: new.action.clone(),
            object: new.object.clone(),
            detail: new.detail.clone(),
            request_id: new.request_id.clone(),
            created_at: now(),
            seq: Some(before.head.seq + 1),
            hash: None,
        };
        let hash = entry.hash_after(&before.head.hash);
        entry.hash = Some(hash.clone());
        insert(tx, &entry).await?;
        let head = AuditHead { seq: before.head.seq + 1, hash, ..before.head.clone() };
        let signed = self.sign(&before, &head);
        let update = sql("UPDATE audit_heads SET seq = $2, hash = $3, unchained = $4, signed = $5 WHERE tenant = $1")
            .bind(tenant)
            .bind(head.seq)
            .bind(&head.hash)
            .bind(head.unchained)
            .bind(signed.as_deref());
        tx.write(update).await.map(drop)
    }

    /// A head is signed only behind one that was authentic. Otherwise the next entry would turn
    /// what somebody wrote into the database into what the server has signed.
    fn sign(&self, before: &StoredAuditHead, head: &AuditHead) -> Option<String> {
        let signer = self.head_signer.as_ref()?;
        let authentic = |signed: &String| signer.is_authentic(&before.head, signed);
        (before.head.seq == 0 || before.signed.as_ref().is_some_and(authentic))
            .then(|| signer.sign(head))
    }
}

/// The head of a tenant's log, held until the transaction ends, so that two writers never continue
/// the same entry.
async fn lock_head(tx: &mut Tx, tenant: &TenantId) -> Result<StoredAuditHead, StoreError> {
    let upsert = sql("INSERT INTO audit_heads (tenant, seq, hash, unchained) VALUES ($1, 0, '', 0) \
         ON CONFLICT (tenant) DO UPDATE SET seq = audit_heads.seq RETURNING tenant, seq, hash, unchained, signed")
    .bind(tenant);
    let row = tx.one(upsert).await?.ok_or(StoreError::NotFound)?;
    let mut stored = StoredAuditHead::from_row(&row)?;
    if stored.head.seq == 0 {
        let count = sql("SELECT COUNT(*) AS count FROM audit WHERE tenant = $1 AND seq IS NULL")
            .bind(tenant);
        stored.head.unchained = tx.one(count).await?.map_or(Ok(0), |row| row.get("count"))?;
    }
    Ok(stored)
}

async fn insert(tx: &mut Tx, entry: &AuditRecord) -> Result<(), StoreError> {
    let insert =
        sql("INSERT INTO audit (id, tenant, actor, action, object, detail, request_id, created_at, seq, hash) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)")
        .bind(entry.id)
        .bind(&entry.tenant)
        .bind(entry.actor)
        .bind(&entry.action)
        .bind(&entry.object)
        .bind(entry.detail.to_string())
        .bind(&entry.request_id)
        .bind(entry.created_at)
        .bind(entry.seq)
        .bind(&entry.hash);
    tx.write(insert).await.map(drop)
}
