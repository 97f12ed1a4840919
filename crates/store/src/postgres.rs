//! Opening Postgres: the production database.

use std::str::FromStr;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection, PgConnection};

use crate::db::Db;
use crate::{StoreError, migrations};

const CONNECTIONS: u32 = 16;

/// How long a call waits for a free connection, or for a database that is just starting.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long the one try may take that finds out what is wrong.
const LAST_TRY: Duration = Duration::from_secs(2);

/// A connection unused for longer than this is asked for a sign of life before it is used.
const IDLE_BEFORE_TEST: Duration = Duration::from_secs(5);

pub(crate) async fn open(dsn: &str) -> Result<Db, StoreError> {
    // The DSN holds a password, so it is never part of a message.
    let options = PgConnectOptions::from_str(dsn)
        .map_err(|error| StoreError::Dsn(format!("the Postgres address cannot be read: {error}")))?
        .application_name("skillbox");
    let pool = PgPoolOptions::new()
        .max_connections(CONNECTIONS)
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
        .connect_with(options.clone())
        .await;
    let pool = match pool {
        Err(sqlx::Error::PoolTimedOut) => return Err(why_not(&options).await.into()),
        pool => pool?,
    };
    // The migrator holds an advisory lock, so servers that start together take turns.
    migrations::run(&mut *pool.acquire().await?).await?;
    Ok(Db::Postgres(pool))
}

/// A pool says only that its patience ran out; one plain try says why.
async fn why_not(options: &PgConnectOptions) -> sqlx::Error {
    match tokio::time::timeout(LAST_TRY, PgConnection::connect_with(options)).await {
        Ok(Err(cause)) => cause,
        Ok(Ok(_)) | Err(_) => sqlx::Error::PoolTimedOut,
    }
}
