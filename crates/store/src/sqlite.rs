//! Opening a SQLite file: the embedded default.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous};

use crate::db::Db;
use crate::{StoreError, migrations};

/// Reads are short and mostly answered from memory; more connections than this only cost threads.
const READERS: u32 = 4;

/// How long to wait for another process (a backup, a second `skillbox`) that holds the file's lock.
const BUSY: Duration = Duration::from_secs(10);

/// `path` is what follows `sqlite:`; `//` before it is accepted, as in other programs' spelling.
pub(crate) async fn open(path: &str) -> Result<Db, StoreError> {
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
        .optimize_on_close(true, None);
    let write = pool(1).connect_with(options.clone()).await?;
    migrate(&write).await?;
    // Whatever is sent to the wrong pool by mistake is refused instead of racing the writer.
    let read = pool(READERS).connect_lazy_with(options.pragma("query_only", "ON"));
    Ok(Db::Sqlite { read, write })
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
        return Err(StoreError::Dsn("a SQLite database needs a file: write `sqlite:<path>`".into()));
    }
    OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path).map(drop).map_err(|error| {
        StoreError::Dsn(format!(
            "cannot open the database file {}: {error}; its directory must exist and be writable",
            path.display()
        ))
    })
}

/// All steps in one transaction: a second process that starts meanwhile waits, then finds them done.
async fn migrate(pool: &SqlitePool) -> Result<(), StoreError> {
    let mut tx = pool.begin_with("BEGIN IMMEDIATE").await?;
    migrations::run(&mut *tx).await?;
    tx.commit().await?;
    Ok(())
}
