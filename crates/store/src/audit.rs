//! The audit trail: who changed what. Rows are only ever added.

use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use crate::page::age_cursor;
use crate::row::Row;
use crate::sql::{Sql, sql};
use crate::{Micros, Page, Store, StoreError, TenantId, now};

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Audit {
    pub id: Uuid,
    pub tenant: TenantId,
    /// The key that acted; absent when the server itself did.
    pub actor: Option<Uuid>,
    pub action: String,
    pub object: String,
    pub detail: Value,
    pub request_id: Option<String>,
    pub created_at: Micros,
}

#[derive(Debug, Clone, PartialEq)]
pub struct NewAudit {
    pub actor: Option<Uuid>,
    pub action: String,
    pub object: String,
    pub detail: Value,
    pub request_id: Option<String>,
}

impl Audit {
    /// What `Page::after` takes to continue behind this row.
    pub fn cursor(&self) -> String {
        age_cursor(self.created_at, self.id)
    }

    fn from_row(row: &Row) -> Result<Audit, StoreError> {
        Ok(Audit {
            id: row.parse("id")?,
            tenant: row.parse("tenant")?,
            actor: row.parse_opt("actor")?,
            action: row.get("action")?,
            object: row.get("object")?,
            detail: row.json("detail")?,
            request_id: row.get("request_id")?,
            created_at: row.get("created_at")?,
        })
    }
}

impl NewAudit {
    pub(crate) fn insert<'a>(&'a self, tenant: &'a TenantId) -> Sql<'a> {
        sql("INSERT INTO audit (id, tenant, actor, action, object, detail, \
             request_id, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)")
        .bind(Uuid::now_v7())
        .bind(tenant)
        .bind(self.actor)
        .bind(&self.action)
        .bind(&self.object)
        .bind(self.detail.to_string())
        .bind(&self.request_id)
        .bind(now())
    }
}

impl Store {
    pub async fn append_audit(&self, tenant: &TenantId, new: &NewAudit) -> Result<(), StoreError> {
        self.db.write(new.insert(tenant)).await.map(drop)
    }

    /// Newest first.
    pub async fn list_audit(&self, tenant: &TenantId, page: &Page) -> Result<Vec<Audit>, StoreError> {
        let select = sql("SELECT id, tenant, actor, action, object, detail, request_id, \
             created_at FROM audit WHERE tenant = $1")
        .bind(tenant);
        let rows = self.db.read(page.newest_first(select)?).await?;
        rows.iter().map(Audit::from_row).collect()
    }
}
