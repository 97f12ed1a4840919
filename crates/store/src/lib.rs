//! Everything Skillbox must remember: tenants, keys, skills, executions, files and the audit trail.
//!
//! Owns the SQL, for Postgres and SQLite alike; nothing outside this crate knows which one serves.
//! Knows no HTTP, no sandbox and no blobs. Every function on a tenant's data takes the tenant;
//! the only finders without one are `find_key` (the key is how a tenant becomes known) and the
//! lease functions, which act for all tenants at once.

mod audit;
mod db;
mod error;
mod executions;
mod files;
mod keys;
mod leases;
mod migrations;
mod page;
mod postgres;
mod row;
mod skills;
mod sql;
mod sqlite;
mod tenants;
mod time;
mod words;

pub use audit::{Audit, NewAudit};
pub use error::StoreError;
pub use executions::{Born, Cancel, Execution, ExecutionFilter, Idempotency, Inserted, NewExecution, Status};
pub use files::{FileRow, NewFile};
pub use keys::{Key, NewKey, Scope};
pub use leases::{Beat, Fenced, Finished, Gone, Lease, Reaped};
pub use page::Page;
pub use skills::{NewSkill, Put, SkillRow};
pub use tenants::{Tenant, TenantId, TenantPolicy, VersionPolicy};
pub use time::{Micros, now};
pub use words::UnknownWord;

use db::Db;

/// A handle on the database; clones share its connections.
#[derive(Clone, Debug)]
pub struct Store {
    db: Db,
}

impl Store {
    /// Opens `sqlite:<path>` or `postgres://…` and brings its tables up to date.
    pub async fn open(dsn: &str) -> Result<Store, StoreError> {
        let db = match dsn.split_once(':') {
            Some(("sqlite", path)) => sqlite::open(path).await?,
            Some(("postgres" | "postgresql", _)) => postgres::open(dsn).await?,
            _ => {
                return Err(StoreError::Dsn("a database is named by `sqlite:<path>` or `postgres://…`".into()));
            }
        };
        Ok(Store { db })
    }

    /// Asks the database for a sign of life.
    pub async fn ping(&self) -> Result<(), StoreError> {
        self.db.read(sql::sql("SELECT 1 AS one")).await.map(drop)
    }

    /// Waits for what is under way and closes every connection.
    pub async fn close(&self) {
        self.db.close().await;
    }
}
