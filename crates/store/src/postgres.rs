//! Opening Postgres: the production database.

use std::str::FromStr;
use std::time::Duration;

use sqlx::migrate::Migrate;
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::{Connection, PgConnection};

use crate::db::Database;
use crate::migrations::{Dialect, MigrationReport, MigrationTarget};
use crate::{StoreError, migrations};

const MAX_CONNECTIONS: u32 = 16;

/// How long a call waits for a free connection, or for a database that is starting.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);

/// The timeout of the connection attempt that finds out why the pool has no connection.
const DIAGNOSIS_TIMEOUT: Duration = Duration::from_secs(2);

/// A connection that was idle for longer than this is pinged before use.
const MAX_IDLE_WITHOUT_PING: Duration = Duration::from_secs(5);

/// The server aborts transactions that are idle for longer. Without that, a worker that is stopped
/// or disconnected in the middle of a transaction would hold its locks, such as that of a tenant's
/// row, indefinitely. No transaction of ours waits for anything but the database.
const SET_IDLE_TRANSACTION_TIMEOUT: &str = "SET idle_in_transaction_session_timeout = '5s'";

/// How long a migration waits for a table lock. While it waits, every later query on the table
/// waits behind it, and a backup may hold its lock for hours.
const SET_LOCK_TIMEOUT: &str = "SET lock_timeout = '2s'";

/// Opens the database and applies missing migrations.
pub(crate) async fn open(dsn: &str) -> Result<Database, StoreError> {
    Ok(Database::Postgres(open_pool(options(dsn)?).await?))
}

/// Opens the database without applying migrations.
pub(crate) async fn open_unmigrated(dsn: &str) -> Result<Database, StoreError> {
    let pool = connect(dsn, MAX_CONNECTIONS).await?;
    migrations::check_schema(&mut *pool.acquire().await?).await?;
    Ok(Database::Postgres(pool))
}

pub(crate) async fn migrate(dsn: &str) -> Result<MigrationReport, StoreError> {
    migrate_pool(&connect(dsn, 1).await?).await
}

pub(crate) async fn check_schema(dsn: &str) -> Result<(), StoreError> {
    let pool = connect(dsn, 1).await?;
    migrations::check_schema(&mut *pool.acquire().await?).await
}

/// Migrates under sqlx's advisory lock, so that servers and jobs that start together take turns.
/// The connection is detached from the pool and closed afterwards: that releases the lock in every
/// case, and `lock_timeout` does not leak into the pool.
async fn migrate_pool(pool: &PgPool) -> Result<MigrationReport, StoreError> {
    let mut connection = pool.acquire().await?.detach();
    connection.lock().await?;
    sqlx::query(SET_LOCK_TIMEOUT).execute(&mut connection).await?;
    let migrated = migrations::migrate(&mut connection).await;
    connection.close().await?;
    migrated
}

impl MigrationTarget for PgConnection {
    const DIALECT: Dialect = Dialect::Postgres;

    async fn has_migrations_table(&mut self) -> Result<bool, sqlx::Error> {
        sqlx::query_scalar("SELECT to_regclass('_sqlx_migrations') IS NOT NULL")
            .fetch_one(self)
            .await
    }

    async fn oldest_compatible(&mut self) -> Result<Option<String>, sqlx::Error> {
        sqlx::query_scalar("SELECT value FROM settings WHERE name = 'oldest schema'")
            .fetch_optional(self)
            .await
    }
}

/// A pool as a server uses it, on a migrated database.
pub(crate) async fn open_pool(options: PgConnectOptions) -> Result<PgPool, StoreError> {
    let pool = connect_with(options, MAX_CONNECTIONS).await?;
    migrate_pool(&pool).await?;
    Ok(pool)
}

async fn connect(dsn: &str, connections: u32) -> Result<PgPool, StoreError> {
    connect_with(options(dsn)?, connections).await
}

async fn connect_with(options: PgConnectOptions, connections: u32) -> Result<PgPool, StoreError> {
    let pool = PgPoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        // A ping before every use would double the round trips of the hot path. A busy connection
        // is known to work; only an idle one may have been dropped unnoticed.
        .test_before_acquire(false)
        .before_acquire(|connection, meta| {
            Box::pin(async move {
                if meta.idle_for > MAX_IDLE_WITHOUT_PING {
                    connection.ping().await?;
                }
                Ok(true)
            })
        })
        .after_connect(|connection, _| {
            Box::pin(async move {
                sqlx::query(SET_IDLE_TRANSACTION_TIMEOUT).execute(connection).await.map(drop)
            })
        })
        .connect_with(options.clone())
        .await;
    match pool {
        Err(sqlx::Error::PoolTimedOut) => Err(diagnose_connection(&options).await.into()),
        pool => Ok(pool?),
    }
}

/// The version of the server. Changes nothing in it.
pub(crate) async fn version(dsn: &str) -> Result<String, StoreError> {
    let options = options(dsn)?;
    let mut connection = PgConnection::connect_with(&options).await?;
    let version = sqlx::query_scalar("SHOW server_version").fetch_one(&mut connection).await?;
    connection.close().await?;
    Ok(version)
}

pub(crate) fn options(dsn: &str) -> Result<PgConnectOptions, StoreError> {
    // The DSN holds a password, so it must not be part of a message.
    let options = PgConnectOptions::from_str(dsn).map_err(|error| {
        StoreError::InvalidDsn(format!("the Postgres DSN cannot be parsed: {error}"))
    })?;
    Ok(options.application_name("skillbox"))
}

/// A pool reports only its timeout; a single connection attempt reports the cause.
async fn diagnose_connection(options: &PgConnectOptions) -> sqlx::Error {
    match tokio::time::timeout(DIAGNOSIS_TIMEOUT, PgConnection::connect_with(options)).await {
        Ok(Err(cause)) => cause,
        Ok(Ok(_)) | Err(_) => sqlx::Error::PoolTimedOut,
    }
}
