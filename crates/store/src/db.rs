//! The two databases behind one set of verbs.
//!
//! Statements arrive as `Sql`, rows leave as `Row`; only this file, `sqlite.rs` and `postgres.rs`
//! know that there are two drivers. Where the SQL itself must differ, `Database::skip_locked` and its
//! like say so.

use sqlx::postgres::PgPool;
use sqlx::sqlite::SqlitePool;
use sqlx::{Postgres, Sqlite, Transaction, query_with};

use crate::StoreError;
use crate::row::Row;
use crate::sql::Sql;

#[derive(Clone, Debug)]
pub(crate) enum Database {
    /// SQLite has one writer at a time. A pool of one connection makes writers queue here, in
    /// order, instead of in SQLite's busy loop; readers never wait for them.
    Sqlite {
        read: SqlitePool,
        write: SqlitePool,
    },
    Postgres(PgPool),
}

/// A transaction that may write; dropping it undoes it.
pub(crate) enum Tx {
    Sqlite(Transaction<'static, Sqlite>),
    Postgres(Transaction<'static, Postgres>),
}

/// Runs `$sql` on `$executor` with the query method `$method`.
macro_rules! sqlite {
    ($sql:expr, $method:ident, $executor:expr) => {{
        let (text, args) = $sql.for_sqlite()?;
        query_with(text, args).$method($executor).await?
    }};
}

macro_rules! postgres {
    ($sql:expr, $method:ident, $executor:expr) => {{
        let (text, args) = $sql.for_postgres()?;
        query_with(text, args).$method($executor).await?
    }};
}

impl Database {
    /// The rows of a query that changes nothing.
    pub async fn read(&self, sql: Sql<'_>) -> Result<Vec<Row>, StoreError> {
        Ok(match self {
            Database::Sqlite { read, .. } => sqlite_rows(sqlite!(sql, fetch_all, read)),
            Database::Postgres(pool) => postgres_rows(postgres!(sql, fetch_all, pool)),
        })
    }

    /// The only row of such a query, if there is one.
    pub async fn read_one(&self, sql: Sql<'_>) -> Result<Option<Row>, StoreError> {
        Ok(self.read(sql).await?.pop())
    }

    /// Runs one statement as its own transaction; answers how many rows it changed.
    pub async fn write(&self, sql: Sql<'_>) -> Result<u64, StoreError> {
        Ok(match self {
            Database::Sqlite { write, .. } => sqlite!(sql, execute, write).rows_affected(),
            Database::Postgres(pool) => postgres!(sql, execute, pool).rows_affected(),
        })
    }

    /// Runs one statement as its own transaction; answers what its RETURNING says.
    pub async fn write_returning(&self, sql: Sql<'_>) -> Result<Vec<Row>, StoreError> {
        Ok(match self {
            // Every row is fetched, because SQLite commits only when a statement is run to its end.
            Database::Sqlite { write, .. } => sqlite_rows(sqlite!(sql, fetch_all, write)),
            Database::Postgres(pool) => postgres_rows(postgres!(sql, fetch_all, pool)),
        })
    }

    pub async fn begin(&self) -> Result<Tx, StoreError> {
        Ok(match self {
            // A plain BEGIN takes the write lock at the first write, too late to be waited for.
            Database::Sqlite { write, .. } => {
                Tx::Sqlite(write.begin_with("BEGIN IMMEDIATE").await?)
            }
            Database::Postgres(pool) => Tx::Postgres(pool.begin().await?),
        })
    }

    /// What ends a SELECT that picks rows to change. On Postgres it locks them and passes over
    /// those somebody else is changing; SQLite has one writer and needs nothing.
    pub fn skip_locked(&self) -> &'static str {
        match self {
            Database::Sqlite { .. } => "",
            Database::Postgres(_) => " FOR UPDATE SKIP LOCKED",
        }
    }

    /// What ends a SELECT of a row that this transaction is about to change.
    pub fn for_update(&self) -> &'static str {
        match self {
            Database::Sqlite { .. } => "",
            // It changes no key, so rows that refer to it can be added meanwhile: waiting for those
            // could end in a deadlock.
            Database::Postgres(_) => " FOR NO KEY UPDATE",
        }
    }

    /// What ends a RETURNING in a transaction whose commit need not wait for the disk: what is
    /// committed later waits for both.
    pub fn without_flush(&self) -> &'static str {
        match self {
            Database::Sqlite { .. } => "",
            Database::Postgres(_) => ", set_config('synchronous_commit', 'off', TRUE) AS flushed",
        }
    }

    /// What time it is by the clock that all who use this database share, in microseconds since
    /// 1970. Leases are made and judged by it, so that a process whose own clock is wrong neither
    /// loses its runs nor takes those of others.
    pub fn clock(&self) -> &'static str {
        match self {
            Database::Sqlite { .. } => "CAST(unixepoch('subsec') * 1000000 AS BIGINT)",
            Database::Postgres(_) => {
                "CAST(EXTRACT(EPOCH FROM statement_timestamp()) * 1000000 AS BIGINT)"
            }
        }
    }

    pub async fn close(&self) {
        match self {
            Database::Sqlite { read, write } => {
                // The writer goes last: the last connection to leave folds the log into the file.
                read.close().await;
                write.close().await;
            }
            Database::Postgres(pool) => pool.close().await,
        }
    }
}

impl Tx {
    pub async fn write(&mut self, sql: Sql<'_>) -> Result<u64, StoreError> {
        Ok(match self {
            Tx::Sqlite(tx) => sqlite!(sql, execute, &mut **tx).rows_affected(),
            Tx::Postgres(tx) => postgres!(sql, execute, &mut **tx).rows_affected(),
        })
    }

    /// The rows of a query, or of a statement's RETURNING.
    pub async fn all(&mut self, sql: Sql<'_>) -> Result<Vec<Row>, StoreError> {
        Ok(match self {
            Tx::Sqlite(tx) => sqlite_rows(sqlite!(sql, fetch_all, &mut **tx)),
            Tx::Postgres(tx) => postgres_rows(postgres!(sql, fetch_all, &mut **tx)),
        })
    }

    /// The only row of such a query or statement, if there is one.
    pub async fn one(&mut self, sql: Sql<'_>) -> Result<Option<Row>, StoreError> {
        Ok(self.all(sql).await?.pop())
    }

    pub async fn commit(self) -> Result<(), StoreError> {
        match self {
            Tx::Sqlite(tx) => tx.commit().await?,
            Tx::Postgres(tx) => tx.commit().await?,
        }
        Ok(())
    }
}

fn sqlite_rows(rows: Vec<sqlx::sqlite::SqliteRow>) -> Vec<Row> {
    rows.into_iter().map(Row::Sqlite).collect()
}

fn postgres_rows(rows: Vec<sqlx::postgres::PgRow>) -> Vec<Row> {
    rows.into_iter().map(Row::Postgres).collect()
}
