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

/// Reads are short and mostly answered from memory; more connections than this only cost threads.
const READERS: u32 = 4;

/// How long to wait for another process (a backup, a second `skillbox`) that holds the file's lock.
const BUSY: Duration = Duration::from_secs(10);

/// Between two attempts, where SQLite does not wait by itself.
const PAUSE: Duration = Duration::from_millis(10);

/// Opens the database and brings its tables up to date. `path` is what follows `sqlite:`; `//`
/// before it is accepted, as in other programs' spelling.
pub(crate) async fn open(path: &str) -> Result<Database, StoreError> {
    let (write, options) = writer(path).await?;
    migrate_by(&write).await?;
    Ok(with_readers(write, options))
}

/// Opens the database with the tables that somebody else has brought up to date.
pub(crate) async fn open_unmigrated(path: &str) -> Result<Database, StoreError> {
    let (write, options) = writer(path).await?;
    migrations::expect(&mut *write.acquire().await?).await?;
    Ok(with_readers(write, options))
}

pub(crate) async fn migrate(path: &str) -> Result<MigrationReport, StoreError> {
    migrate_by(&writer(path).await?.0).await
}

pub(crate) async fn expect(path: &str) -> Result<(), StoreError> {
    let (write, _) = writer(path).await?;
    migrations::expect(&mut *write.acquire().await?).await
}

async fn writer(path: &str) -> Result<(SqlitePool, SqliteConnectOptions), StoreError> {
    let path = Path::new(path.strip_prefix("//").unwrap_or(path));
    create(path)?;
    let options = SqliteConnectOptions::new()
        .filename(path)
        .busy_timeout(BUSY)
        .foreign_keys(true)
        .journal_mode(SqliteJournalMode::Wal)
        // A commit survives the death of this process under either setting, because the log is in
        // the kernel's hands by then. FULL also has it on the disk before we answer, so that after
        // a power cut a revoked key is still revoked and an answered execution is still there.
        // NORMAL would save one fdatasync a commit (0.2 ms on a plain SSD) and lose the last ones.
        .synchronous(SqliteSynchronous::Full)
        // What is deleted or replaced is overwritten with zeros, so that secrets do not stay in
        // free pages of the file and of its backups.
        .pragma("secure_delete", "ON")
        .optimize_on_close(true, None);
    Ok((connect(&options).await?, options))
}

/// One connection. Of several that open a new file at once, each makes it a WAL database, for which
/// SQLite does not wait as it does for everything else: `BUSY` is ours to keep.
async fn connect(options: &SqliteConnectOptions) -> Result<SqlitePool, StoreError> {
    let until = Instant::now() + BUSY;
    loop {
        match pool(1).connect_with(options.clone()).await {
            Err(error) if is_busy(&error) && Instant::now() < until => {
                tokio::time::sleep(PAUSE).await
            }
            connected => return Ok(connected?),
        }
    }
}

/// Whether somebody else has the lock. SQLite tells more about it in the upper bits.
fn is_busy(error: &sqlx::Error) -> bool {
    const SQLITE_BUSY: i32 = 5;
    let code = error.as_database_error().and_then(|error| error.code()?.parse::<i32>().ok());
    code.is_some_and(|code| code & 0xff == SQLITE_BUSY)
}

/// Whatever is sent to the readers by mistake is refused instead of racing the writer.
fn with_readers(write: SqlitePool, options: SqliteConnectOptions) -> Database {
    let read = pool(READERS).connect_lazy_with(options.pragma("query_only", "ON"));
    Database::Sqlite { read, write }
}

impl MigrationTarget for SqliteConnection {
    const DIALECT: Dialect = Dialect::Sqlite;

    async fn exist(&mut self) -> Result<bool, sqlx::Error> {
        let count = "SELECT COUNT(*) FROM sqlite_master WHERE name = '_sqlx_migrations'";
        Ok(sqlx::query_scalar::<_, i64>(count).fetch_one(self).await? > 0)
    }

    async fn oldest(&mut self) -> Result<Option<String>, sqlx::Error> {
        sqlx::query_scalar("SELECT value FROM settings WHERE name = 'oldest schema'")
            .fetch_optional(self)
            .await
    }
}

fn pool(connections: u32) -> SqlitePoolOptions {
    SqlitePoolOptions::new()
        .max_connections(connections)
        // A file does not hang up, so connections live for ever and are not tested before use.
        .idle_timeout(None)
        .max_lifetime(None)
        .test_before_acquire(false)
}

/// Makes the file if it is missing, readable by its owner alone: it holds tenants' documents.
/// SQLite gives its log files the same mode.
fn create(path: &Path) -> Result<(), StoreError> {
    if path.as_os_str().is_empty() || path == Path::new(":memory:") {
        return Err(StoreError::Dsn(
            "a SQLite database needs a file: write `sqlite:<path>`".into(),
        ));
    }
    OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path).map(drop).map_err(|error| {
        StoreError::Dsn(format!(
            "cannot open the database file {}: {error}; its directory must exist and be writable",
            path.display()
        ))
    })
}

/// All steps in one transaction: a second process that starts meanwhile waits, then finds them
/// done.
async fn migrate_by(pool: &SqlitePool) -> Result<MigrationReport, StoreError> {
    let mut tx = pool.begin_with("BEGIN IMMEDIATE").await?;
    let migrated = migrations::migrate(&mut *tx).await?;
    tx.commit().await?;
    Ok(migrated)
}
