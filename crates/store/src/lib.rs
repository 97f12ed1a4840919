//! Everything Skillbox must remember: tenants, keys, skills, executions, files and the audit trail.
//!
//! Owns the SQL, for Postgres and SQLite alike; nothing outside this crate knows which one serves.
//! Knows no HTTP, no sandbox and no blobs. Every function on a tenant's data takes the tenant;
//! the only finders without one are `find_key` (the key is how a tenant becomes known) and the
//! functions on leases, webhooks and retention, which act for all tenants at once.

mod acceptance;
mod announcements;
mod archives;
mod audit;
mod audit_chain;
pub mod bench;
mod bucket;
mod cancels;
mod claims;
mod db;
mod error;
mod executions;
mod files;
mod keys;
mod leases;
mod load;
mod migrations;
mod page;
mod postgres;
mod reaping;
mod retention;
mod reviews;
mod row;
mod segments;
mod settings;
mod signatures;
mod skill_files;
mod skill_heads;
mod skills;
mod sql;
mod sqlite;
mod storage;
mod tenants;
mod time;
mod trust;
mod uploads;
mod webhooks;
mod words;

pub use acceptance::{Born, Idempotency, Inserted, NewExecution};
pub use announcements::{Announcement, Announcements};
pub use archives::{ArchiveNote, ArchiveUse};
pub use audit::{Actor, Audit, NewAudit, StoredHead};
pub use audit_chain::{AuditHead, AuditProblem, HeadSigner, verify_audit};
pub use cancels::Cancel;
pub use error::StoreError;
pub use executions::{Execution, ExecutionFilter, Status};
pub use files::{FileRow, NewFile};
pub use keys::{Key, NewKey, Scope};
pub use leases::{Asked, Beat, Finished, Lease};
pub use load::{Connections, Load};
pub use migrations::Migrated;
pub use page::Page;
pub use reaping::{Fenced, Gone, Reaped};
pub use retention::Ended;
pub use reviews::Verdict;
pub use segments::{LogStream, Segment};
pub use signatures::{NewSignature, NewestSigned, Trust};
pub use skill_files::SkillFileRow;
pub use skill_heads::{CallableSkill, FindingCounts, ListedSkill, SkillHead};
pub use skills::{NewSkill, Put, SkillRow, SkillStatus};
pub use storage::{MIN_RESULT_BYTES, StorageUsage, UnmeasuredArchive};
pub use tenants::{ScanPolicy, Tenant, TenantId, TenantPolicy, VersionPolicy};
pub use time::{Micros, now};
pub use trust::{NewTrustedKey, RevokedDigest, SignaturePolicy, TrustedKey};
pub use uploads::{Added, DeletedFile, FileFilter, FileQuota};
pub use webhooks::{Webhook, WebhookState};
pub use words::UnknownWord;

use std::sync::Arc;

use announcements::Announcer;
use db::Db;

/// A handle on the database; clones share its connections.
#[derive(Clone, Debug)]
pub struct Store {
    db: Db,
    announcer: Announcer,
    /// For tenants without a limit of their own.
    default_storage_limit: Option<i64>,
    /// Who makes the changes; nobody when the server itself does.
    actor: Option<Arc<Actor>>,
    /// Signs the heads of audit logs.
    head_signer: Option<Arc<dyn HeadSigner>>,
}

/// A database by its name.
enum Named<'a> {
    Sqlite(&'a str),
    Postgres(&'a str),
}

impl Named<'_> {
    fn parse(dsn: &str) -> Result<Named<'_>, StoreError> {
        match dsn.split_once(':') {
            Some(("sqlite", path)) => Ok(Named::Sqlite(path)),
            Some(("postgres" | "postgresql", _)) => Ok(Named::Postgres(dsn)),
            _ => Err(StoreError::Dsn(
                "a database is named by `sqlite:<path>` or `postgres://…`".into(),
            )),
        }
    }
}

impl Store {
    /// Opens `sqlite:<path>` or `postgres://…` and brings its tables up to date.
    pub async fn open(dsn: &str) -> Result<Store, StoreError> {
        Ok(Store::of(match Named::parse(dsn)? {
            Named::Sqlite(path) => sqlite::open(path).await?,
            Named::Postgres(dsn) => postgres::open(dsn).await?,
        }))
    }

    /// Opens a database whose tables somebody else has brought up to date; `Behind` when nobody
    /// has.
    pub async fn open_as_it_is(dsn: &str) -> Result<Store, StoreError> {
        Ok(Store::of(match Named::parse(dsn)? {
            Named::Sqlite(path) => sqlite::open_as_it_is(path).await?,
            Named::Postgres(dsn) => postgres::open_as_it_is(dsn).await?,
        }))
    }

    /// Brings the tables of a database up to date and does nothing else.
    pub async fn migrate(dsn: &str) -> Result<Migrated, StoreError> {
        match Named::parse(dsn)? {
            Named::Sqlite(path) => sqlite::migrate(path).await,
            Named::Postgres(dsn) => postgres::migrate(dsn).await,
        }
    }

    /// Whether this program can use the tables as they are. Nothing is changed.
    pub async fn expect_tables(dsn: &str) -> Result<(), StoreError> {
        match Named::parse(dsn)? {
            Named::Sqlite(path) => sqlite::expect(path).await,
            Named::Postgres(dsn) => postgres::expect(dsn).await,
        }
    }

    fn of(db: Db) -> Store {
        Store {
            db,
            announcer: Announcer::new(),
            default_storage_limit: None,
            actor: None,
            head_signer: None,
        }
    }

    /// What a Postgres server calls its version. Nothing is made or changed there.
    pub async fn server_version(dsn: &str) -> Result<String, StoreError> {
        postgres::version(dsn).await
    }

    /// Asks the database for a sign of life.
    pub async fn ping(&self) -> Result<(), StoreError> {
        self.db.read(sql::sql("SELECT 1 AS one")).await.map(drop)
    }

    /// Waits for what is under way and closes every connection.
    pub async fn close(&self) {
        self.announcer.stop();
        self.db.close().await;
    }
}
