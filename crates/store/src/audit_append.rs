//! Writing the audit log: adding an entry to the chain, in the transaction of the change.

use serde_json::Value;
use uuid::Uuid;

use crate::audit_chain::AuditHead;
use crate::db::Tx;
use crate::sql::{Sql, sql};
use crate::{AuditRecord, NewAuditRecord, Store, StoreError, StoredAuditHead, TenantId, now};

impl Store {
    /// Adds an entry that belongs to no change in the database.
    pub async fn append_audit_record(
        &self,
        tenant: &TenantId,
        new: &NewAuditRecord,
    ) -> Result<(), StoreError> {
        let mut tx = self.db.begin().await?;
        self.append(&mut tx, tenant, new).await?;
        tx.commit().await
    }

    /// Adds an entry for a change of the actor, if the store has one. Must be called last in a
    /// transaction: it locks the tenant's head until the commit. With the head always locked last,
    /// transactions cannot deadlock on it, and the lock is held only briefly.
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

    /// Runs a statement and, if it changed anything, records that as `(action, object)`. Returns
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

    /// Signs a head only if the previous one is authentic. Otherwise, after a manipulation of the
    /// database, the next regular entry would give the manipulated log a valid signature.
    fn sign(&self, before: &StoredAuditHead, head: &AuditHead) -> Option<String> {
        let signer = self.head_signer.as_ref()?;
        let authentic = |signed: &String| signer.is_authentic(&before.head, signed);
        (before.head.seq == 0 || before.signed.as_ref().is_some_and(authentic))
            .then(|| signer.sign(head))
    }
}

/// Locks the head of a tenant's log until the transaction ends, so that two transactions cannot
/// chain their entries to the same predecessor. The upsert locks also a head that did not exist.
async fn lock_head(tx: &mut Tx, tenant: &TenantId) -> Result<StoredAuditHead, StoreError> {
    let upsert = sql("INSERT INTO audit_heads (tenant, seq, hash, unchained) VALUES ($1, 0, '', 0) \
         ON CONFLICT (tenant) DO UPDATE SET seq = audit_heads.seq RETURNING tenant, seq, hash, unchained, signed")
    .bind(tenant);
    let row = tx.query_one(upsert).await?.ok_or(StoreError::NotFound)?;
    let mut stored = StoredAuditHead::from_row(&row)?;
    if stored.head.seq == 0 {
        let count = sql("SELECT COUNT(*) AS count FROM audit WHERE tenant = $1 AND seq IS NULL")
            .bind(tenant);
        stored.head.unchained = tx.query_one(count).await?.map_or(Ok(0), |row| row.get("count"))?;
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
