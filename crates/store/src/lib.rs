//! Everything Skillbox must remember: tenants, keys, skills, executions, files and the audit trail.
//!
//! Owns the SQL, for Postgres and SQLite alike; nothing outside this crate knows which one serves.
//! Knows no HTTP, no sandbox and no blobs. Every function on a tenant's data takes the tenant;
//! the only finders without one are `find_key` (the key is how a tenant becomes known) and the
//! functions on leases, webhooks and retention, which act for all tenants at once.

mod acceptance;
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
mod notifications;
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
mod string_enum;
mod tenants;
mod time;
mod trust;
mod uploads;
mod webhooks;

pub use acceptance::{Idempotency, InitialState, InsertResult, NewExecution};
pub use archives::{ArchiveUpload, ArchiveUse};
pub use audit::{Actor, AuditRecord, NewAuditRecord, StoredAuditHead};
pub use audit_chain::{AuditHead, AuditProblem, HeadSigner, verify_audit};
pub use cancels::CancelResult;
pub use error::StoreError;
pub use executions::{Execution, ExecutionFilter, Status};
pub use files::{FileRow, NewFile};
pub use keys::{ApiKey, NewApiKey, Scope};
pub use leases::{FinishedExecution, HeartbeatReply, Lease, PendingRequests};
pub use load::{PoolStats, QueueLoad};
pub use migrations::MigrationReport;
pub use notifications::{Notification, Notifications};
pub use page::PageRequest;
pub use reaping::{FencedExecution, ReapedExecution, StaleLeases};
pub use retention::ExpiredExecution;
pub use reviews::ReviewDecision;
pub use segments::{LogSegment, LogStream};
pub use signatures::{NewSignature, NewestSigned, TrustRecord};
pub use skill_files::SkillFileRow;
pub use skill_heads::{CallableSkill, FindingCounts, ListedSkill, SkillMetadata};
pub use skills::{NewSkill, PutSkillResult, SkillRow, SkillStatus};
pub use storage::{MIN_RESULT_BYTES, StorageUsage, UnmeasuredArchive};
pub use string_enum::UnknownVariant;
pub use tenants::{ScanPolicy, Tenant, TenantId, TenantPolicy, VersionPolicy};
pub use time::{Micros, now};
pub use trust::{NewTrustedKey, RevokedDigest, SignaturePolicy, TrustedKey};
pub use uploads::{AddFileResult, DeletedFile, FileFilter, FileQuota};
pub use webhooks::{Webhook, WebhookState};

use std::sync::Arc;

use db::Database;
use notifications::Notifier;

/// A handle on the database; clones share its connections.
#[derive(Clone, Debug)]
pub struct Store {
    db: Database,
    notifier: Notifier,
    /// For tenants without a limit of their own.
    default_storage_limit: Option<i64>,
    /// Who makes the changes; nobody when the server itself does.
    actor: Option<Arc<Actor>>,
    /// Signs the heads of audit logs.
    head_signer: Option<Arc<dyn HeadSigner>>,
}

/// A database by its name.
enum ParsedDsn<'a> {
    Sqlite(&'a str),
    Postgres(&'a str),
}

impl ParsedDsn<'_> {
    fn parse(dsn: &str) -> Result<ParsedDsn<'_>, StoreError> {
        match dsn.split_once(':') {
            Some(("sqlite", path)) => Ok(ParsedDsn::Sqlite(path)),
            Some(("postgres" | "postgresql", _)) => Ok(ParsedDsn::Postgres(dsn)),
            _ => Err(StoreError::Dsn(
                "a database is named by `sqlite:<path>` or `postgres://…`".into(),
            )),
        }
    }
}

impl Store {
    /// Opens `sqlite:<path>` or `postgres://…` and brings its tables up to date.
    pub async fn open(dsn: &str) -> Result<Store, StoreError> {
        Ok(Store::of(match ParsedDsn::parse(dsn)? {
            ParsedDsn::Sqlite(path) => sqlite::open(path).await?,
            ParsedDsn::Postgres(dsn) => postgres::open(dsn).await?,
        }))
    }

    /// Opens a database whose tables somebody else has brought up to date; `Behind` when nobody
    /// has.
    pub async fn open_unmigrated(dsn: &str) -> Result<Store, StoreError> {
        Ok(Store::of(match ParsedDsn::parse(dsn)? {
            ParsedDsn::Sqlite(path) => sqlite::open_unmigrated(path).await?,
            ParsedDsn::Postgres(dsn) => postgres::open_unmigrated(dsn).await?,
        }))
    }

    /// Brings the tables of a database up to date and does nothing else.
    pub async fn migrate(dsn: &str) -> Result<MigrationReport, StoreError> {
        match ParsedDsn::parse(dsn)? {
            ParsedDsn::Sqlite(path) => sqlite::migrate(path).await,
            ParsedDsn::Postgres(dsn) => postgres::migrate(dsn).await,
        }
    }

    /// Whether this program can use the tables as they are. Nothing is changed.
    pub async fn check_schema(dsn: &str) -> Result<(), StoreError> {
        match ParsedDsn::parse(dsn)? {
            ParsedDsn::Sqlite(path) => sqlite::expect(path).await,
            ParsedDsn::Postgres(dsn) => postgres::expect(dsn).await,
        }
    }

    fn of(db: Database) -> Store {
        Store {
            db,
            notifier: Notifier::new(),
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
        self.notifier.stop();
        self.db.close().await;
    }
}
