//! Opening a SQLite file: the embedded default.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use sqlx::SqliteConnection;
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};

use crate::db::Database;
use crate::migrations::{Dialect, MigrationReport, MigrationTarget};
use crate::{StoreError, migrations};

/// Reads are short and mostly served from memory; more connections only cost threads.
const MAX_READERS: u32 = 4;

/// How long to wait for another process (a backup, a second `skillbox`) that holds the file lock.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// The delay between attempts where SQLite does not wait by itself.
const BUSY_RETRY_DELAY: Duration = Duration::from_millis(10);

/// Opens the database and applies missing migrations. `path` is what follows `sqlite:`; a leading
/// `//` is accepted, because other programs write DSNs so.
pub(crate) async fn open(path: &str) -> Result<Database, StoreError> {
    let (write, options) = open_writer(path).await?;
    migrate_pool(&write).await?;
    Ok(with_readers(write, options))
}

/// Opens the database without applying migrations.
pub(crate) async fn open_unmigrated(path: &str) -> Result<Database, StoreError> {
    let (write, options) = open_writer(path).await?;
    migrations::check_schema(&mut *write.acquire().await?).await?;
    Ok(with_readers(write, options))
}

pub(crate) async fn migrate(path: &str) -> Result<MigrationReport, StoreError> {
    migrate_pool(&open_writer(path).await?.0).await
}

pub(crate) async fn check_schema(path: &str) -> Result<(), StoreError> {
    let (write, _) = open_writer(path).await?;
    migrations::check_schema(&mut *write.acquire().await?).await
}

async fn open_writer(path: &str) -> Result<(SqlitePool, SqliteConnectOptions), StoreError> {
    let path = Path::new(path.strip_prefix("//").unwrap_or(path));
    create_file(path)?;
    let options = SqliteConnectOptions::new()
        .filename(path)
        .busy_timeout(BUSY_TIMEOUT)
        .foreign_keys(true)
        .journal_mode(SqliteJournalMode::Wal)
        // A commit survives a crash of this process under either setting, because the WAL is in
        // the page cache by then. FULL also flushes it before the commit returns, so that after a
        // power failure a revoked key is still revoked and an accepted execution still exists.
        // NORMAL would save one fdatasync per commit (0.2 ms on a plain SSD) and lose the last
        // commits.
        .synchronous(SqliteSynchronous::Full)
        // Deleted and replaced content is overwritten with zeros, so that secrets do not stay in
        // free pages of the file and its backups.
        .pragma("secure_delete", "ON")
        .optimize_on_close(true, None);
    Ok((connect(&options).await?, options))
}

/// Opens one connection. The first connection switches a new file to WAL mode. If several processes
/// do so at once, SQLite returns SQLITE_BUSY without honouring its busy timeout, so the retries are
/// made here.
async fn connect(options: &SqliteConnectOptions) -> Result<SqlitePool, StoreError> {
    let deadline = Instant::now() + BUSY_TIMEOUT;
    loop {
        match pool_options(1).connect_with(options.clone()).await {
            Err(error) if is_busy(&error) && Instant::now() < deadline => {
                tokio::time::sleep(BUSY_RETRY_DELAY).await
            }
            connected => return Ok(connected?),
        }
    }
}

/// Whether another connection holds the lock. The upper bits hold the extended result code.
fn is_busy(error: &sqlx::Error) -> bool {
    const SQLITE_BUSY: i32 = 5;
    let code = error.as_database_error().and_then(|error| error.code()?.parse::<i32>().ok());
    code.is_some_and(|code| code & 0xff == SQLITE_BUSY)
}

/// Readers are opened `query_only`: a write that is sent to them by mistake fails instead of
/// racing the writer.
fn with_readers(write: SqlitePool, options: SqliteConnectOptions) -> Database {
    let read = pool_options(MAX_READERS).connect_lazy_with(options.pragma("query_only", "ON"));
    Database::Sqlite { read, write }
}

impl MigrationTarget for SqliteConnection {
    const DIALECT: Dialect = Dialect::Sqlite;

    async fn has_migrations_table(&mut self) -> Result<bool, sqlx::Error> {
        let count = "SELECT COUNT(*) FROM sqlite_master WHERE name = '_sqlx_migrations'";
        Ok(sqlx::query_scalar::<_, i64>(count).fetch_one(self).await? > 0)
    }

    async fn oldest_compatible(&mut self) -> Result<Option<String>, sqlx::Error> {
        sqlx::query_scalar("SELECT value FROM settings WHERE name = 'oldest schema'")
            .fetch_optional(self)
            .await
    }
}

fn pool_options(connections: u32) -> SqlitePoolOptions {
    SqlitePoolOptions::new()
        .max_connections(connections)
        // A connection to a file does not break, so it is kept for ever and not pinged before use.
        .idle_timeout(None)
        .max_lifetime(None)
        .test_before_acquire(false)
}

/// Creates the file if it is missing, readable by its owner only: it holds the tenants' documents.
/// SQLite gives its WAL files the same mode.
fn create_file(path: &Path) -> Result<(), StoreError> {
    if path.as_os_str().is_empty() || path == Path::new(":memory:") {
        return Err(StoreError::InvalidDsn(
            "a SQLite database must be a file: use `sqlite:<path>`".into(),
        ));
    }
    OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path).map(drop).map_err(|error| {
        StoreError::InvalidDsn(format!(
            "cannot open the database file {}: {error}; its directory must exist and be writable",
            path.display()
        ))
    })
}

/// Applies all migrations in one transaction: a second process that starts meanwhile waits, then
/// finds them applied.
async fn migrate_pool(pool: &SqlitePool) -> Result<MigrationReport, StoreError> {
    let mut tx = pool.begin_with("BEGIN IMMEDIATE").await?;
    let migrated = migrations::migrate(&mut *tx).await?;
    tx.commit().await?;
    Ok(migrated)
}
