//! The database of Skillbox: tenants, API keys, skills, executions, files and the audit log.
//!
//! Owns all SQL, for Postgres and SQLite alike; no other crate knows which database is in use. Must
//! not know HTTP, sandboxes or blobs. Every function on tenant data takes the tenant. The only
//! exceptions are `find_key` (the key identifies the tenant) and the functions on leases, webhooks
//! and retention, which work on all tenants at once.

#![forbid(unsafe_code)]

mod acceptance;
mod audit;
mod audit_append;
mod audit_chain;
mod audit_verification;
pub mod bench;
mod cancellation;
mod claims;
mod db;
mod error;
mod executions;
mod files;
mod finishing;
mod keys;
mod leases;
mod log_segments;
mod manifest_fields;
mod migrations;
mod notifications;
mod notifier;
mod page;
mod pending_archives;
mod pending_blobs;
mod postgres;
mod queue_load;
mod rate_limit;
mod reaping;
mod retention;
mod reviews;
mod row;
mod settings;
mod signatures;
mod skill_files;
mod skill_metadata;
mod skills;
mod sql;
mod sqlite;
mod storage;
mod string_enum;
mod tenant_id;
mod tenant_policy;
mod tenants;
mod time;
mod trusted_keys;
mod uploads;
mod webhooks;

pub use acceptance::{Idempotency, InitialState, InsertResult, NewExecution};
pub use audit::{Actor, AuditRecord, NewAuditRecord, StoredAuditHead};
pub use audit_chain::{AuditHead, HeadSigner};
pub use audit_verification::{AuditProblem, verify_audit};
pub use cancellation::CancelResult;
pub use error::StoreError;
pub use executions::{Execution, ExecutionFilter, Status};
pub use files::{FileRow, NewFile};
pub use finishing::FinishedExecution;
pub use keys::{ApiKey, NewApiKey, Scope};
pub use leases::{HeartbeatReply, Lease, PendingRequests};
pub use log_segments::{LogSegment, LogStream};
pub use migrations::MigrationReport;
pub use notifications::{Notification, Notifications};
pub use page::PageRequest;
pub use pending_archives::{ArchiveUpload, ArchiveUse};
pub use queue_load::{PoolStats, QueueLoad};
pub use reaping::{FencedExecution, ReapedExecution, StaleLeases};
pub use retention::ExpiredExecution;
pub use reviews::ReviewDecision;
pub use signatures::{NewSignature, NewestSigned, TrustRecord};
pub use skill_files::SkillFileRow;
pub use skill_metadata::{CallableSkill, FindingCounts, ListedSkill, SkillMetadata};
pub use skills::{NewSkill, PutSkillResult, SkillRow, SkillStatus};
pub use storage::{MIN_RESULT_BYTES, StorageUsage, UnmeasuredArchive};
pub use string_enum::UnknownVariant;
pub use tenant_id::TenantId;
pub use tenant_policy::{ScanPolicy, TenantPolicy, VersionPolicy};
pub use tenants::Tenant;
pub use time::{Micros, now};
pub use trusted_keys::{NewTrustedKey, RevokedDigest, SignaturePolicy, TrustedKey};
pub use uploads::{AddFileResult, DeletedFile, FileFilter, FileQuota};
pub use webhooks::{Webhook, WebhookState};

use std::sync::Arc;

use db::Database;
use notifier::Notifier;

/// A handle on the database; clones share its connections.
#[derive(Clone, Debug)]
pub struct Store {
    db: Database,
    notifier: Notifier,
    /// For tenants whose policy sets no limit.
    default_storage_limit: Option<i64>,
    /// Recorded in the audit log with every change; `None` for the server's own changes.
    actor: Option<Arc<Actor>>,
    /// Signs the heads of the audit logs.
    head_signer: Option<Arc<dyn HeadSigner>>,
}

/// A DSN by database, with the `sqlite:` prefix removed.
enum ParsedDsn<'a> {
    Sqlite(&'a str),
    Postgres(&'a str),
}

impl ParsedDsn<'_> {
    fn parse(dsn: &str) -> Result<ParsedDsn<'_>, StoreError> {
        match dsn.split_once(':') {
            Some(("sqlite", path)) => Ok(ParsedDsn::Sqlite(path)),
            Some(("postgres" | "postgresql", _)) => Ok(ParsedDsn::Postgres(dsn)),
            _ => Err(StoreError::InvalidDsn(
                "the database DSN must be `sqlite:<path>` or `postgres://…`".into(),
            )),
        }
    }
}

impl Store {
    /// Opens `sqlite:<path>` or `postgres://…` and applies missing migrations.
    pub async fn open(dsn: &str) -> Result<Store, StoreError> {
        Ok(Store::from_database(match ParsedDsn::parse(dsn)? {
            ParsedDsn::Sqlite(path) => sqlite::open(path).await?,
            ParsedDsn::Postgres(dsn) => postgres::open(dsn).await?,
        }))
    }

    /// Opens a database without applying migrations; `SchemaTooOld` when any is missing.
    pub async fn open_unmigrated(dsn: &str) -> Result<Store, StoreError> {
        Ok(Store::from_database(match ParsedDsn::parse(dsn)? {
            ParsedDsn::Sqlite(path) => sqlite::open_unmigrated(path).await?,
            ParsedDsn::Postgres(dsn) => postgres::open_unmigrated(dsn).await?,
        }))
    }

    /// Applies missing migrations and does nothing else.
    pub async fn migrate(dsn: &str) -> Result<MigrationReport, StoreError> {
        match ParsedDsn::parse(dsn)? {
            ParsedDsn::Sqlite(path) => sqlite::migrate(path).await,
            ParsedDsn::Postgres(dsn) => postgres::migrate(dsn).await,
        }
    }

    /// Checks that this program can use the schema as it is. Changes nothing.
    pub async fn check_schema(dsn: &str) -> Result<(), StoreError> {
        match ParsedDsn::parse(dsn)? {
            ParsedDsn::Sqlite(path) => sqlite::check_schema(path).await,
            ParsedDsn::Postgres(dsn) => postgres::check_schema(dsn).await,
        }
    }

    fn from_database(db: Database) -> Store {
        Store {
            db,
            notifier: Notifier::new(),
            default_storage_limit: None,
            actor: None,
            head_signer: None,
        }
    }

    /// The version of a Postgres server. Changes nothing in it.
    pub async fn server_version(dsn: &str) -> Result<String, StoreError> {
        postgres::version(dsn).await
    }

    /// Checks that the database answers.
    pub async fn ping(&self) -> Result<(), StoreError> {
        self.db.read(sql::sql("SELECT 1 AS one")).await.map(drop)
    }

    /// Waits for running statements and closes every connection.
    pub async fn close(&self) {
        self.notifier.stop();
        self.db.close().await;
    }
}
