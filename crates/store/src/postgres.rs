//! Opening Postgres: the production database.

use std::str::FromStr;
use std::time::Duration;

use sqlx::migrate::Migrate;
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::{Connection, PgConnection};

use crate::db::Database;
use crate::migrations::{Dialect, MigrationReport, MigrationTarget};
use crate::{StoreError, migrations};

const CONNECTIONS: u32 = 16;

/// How long a call waits for a free connection, or for a database that is just starting.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long the one try may take that finds out what is wrong.
const LAST_TRY: Duration = Duration::from_secs(2);

/// A connection unused for longer than this is asked for a sign of life before it is used.
const IDLE_BEFORE_TEST: Duration = Duration::from_secs(5);

/// A worker that is stopped or cut off in the middle of a transaction holds its locks, a tenant's
/// turn among them, no longer than this. None of ours waits for anything but the database.
const STALLED: &str = "SET idle_in_transaction_session_timeout = '5s'";

/// How long a step waits for the lock of a table: whoever comes after it waits too, and a backup
/// may hold it for hours.
const LOCK_TIMEOUT: &str = "SET lock_timeout = '2s'";

/// Opens the database and brings its tables up to date.
pub(crate) async fn open(dsn: &str) -> Result<Database, StoreError> {
    Ok(Database::Postgres(open_pool(options(dsn)?).await?))
}

/// Opens the database with the tables that somebody else has brought up to date.
pub(crate) async fn open_unmigrated(dsn: &str) -> Result<Database, StoreError> {
    let pool = connect(dsn, CONNECTIONS).await?;
    migrations::expect(&mut *pool.acquire().await?).await?;
    Ok(Database::Postgres(pool))
}

pub(crate) async fn migrate(dsn: &str) -> Result<MigrationReport, StoreError> {
    migrate_by(&connect(dsn, 1).await?).await
}

pub(crate) async fn expect(dsn: &str) -> Result<(), StoreError> {
    let pool = connect(dsn, 1).await?;
    migrations::expect(&mut *pool.acquire().await?).await
}

/// On a connection of its own, whose end is also that of the lock: servers and jobs that start
/// together take turns.
async fn migrate_by(pool: &PgPool) -> Result<MigrationReport, StoreError> {
    let mut connection = pool.acquire().await?.detach();
    connection.lock().await?;
    sqlx::query(LOCK_TIMEOUT).execute(&mut connection).await?;
    let migrated = migrations::migrate(&mut connection).await;
    connection.close().await?;
    migrated
}

impl MigrationTarget for PgConnection {
    const DIALECT: Dialect = Dialect::Postgres;

    async fn exist(&mut self) -> Result<bool, sqlx::Error> {
        sqlx::query_scalar("SELECT to_regclass('_sqlx_migrations') IS NOT NULL")
            .fetch_one(self)
            .await
    }

    async fn oldest(&mut self) -> Result<Option<String>, sqlx::Error> {
        sqlx::query_scalar("SELECT value FROM settings WHERE name = 'oldest schema'")
            .fetch_optional(self)
            .await
    }
}

/// A pool as any server has it, on a database whose tables are brought up to date.
pub(crate) async fn open_pool(options: PgConnectOptions) -> Result<PgPool, StoreError> {
    let pool = connect_with(options, CONNECTIONS).await?;
    migrate_by(&pool).await?;
    Ok(pool)
}

async fn connect(dsn: &str, connections: u32) -> Result<PgPool, StoreError> {
    connect_with(options(dsn)?, connections).await
}

async fn connect_with(options: PgConnectOptions, connections: u32) -> Result<PgPool, StoreError> {
    let pool = PgPoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(PATIENCE)
        // A test before every use would double the round trips of the hot path. A busy connection
        // proves itself; only one that has been idle may have been cut off unnoticed.
        .test_before_acquire(false)
        .before_acquire(|connection, meta| {
            Box::pin(async move {
                if meta.idle_for > IDLE_BEFORE_TEST {
                    connection.ping().await?;
                }
                Ok(true)
            })
        })
        .after_connect(|connection, _| {
            Box::pin(async move { sqlx::query(STALLED).execute(connection).await.map(drop) })
        })
        .connect_with(options.clone())
        .await;
    match pool {
        Err(sqlx::Error::PoolTimedOut) => Err(why_not(&options).await.into()),
        pool => Ok(pool?),
    }
}

/// The version of the server, asked for without touching anything in it.
pub(crate) async fn version(dsn: &str) -> Result<String, StoreError> {
    let options = options(dsn)?;
    let mut connection = PgConnection::connect_with(&options).await?;
    let version = sqlx::query_scalar("SHOW server_version").fetch_one(&mut connection).await?;
    connection.close().await?;
    Ok(version)
}

pub(crate) fn options(dsn: &str) -> Result<PgConnectOptions, StoreError> {
    // The DSN holds a password, so it is never part of a message.
    let options = PgConnectOptions::from_str(dsn).map_err(|error| {
        StoreError::Dsn(format!("the Postgres address cannot be read: {error}"))
    })?;
    Ok(options.application_name("skillbox"))
}

/// A pool says only that its patience ran out; one plain try says why.
async fn why_not(options: &PgConnectOptions) -> sqlx::Error {
    match tokio::time::timeout(LAST_TRY, PgConnection::connect_with(options)).await {
        Ok(Err(cause)) => cause,
        Ok(Ok(_)) | Err(_) => sqlx::Error::PoolTimedOut,
    }
}
