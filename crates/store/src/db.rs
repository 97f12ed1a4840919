//! One interface to both databases: reads, writes and transactions.
//!
//! Statements come in as `Sql`, rows go out as `Row`; only this file, `sqlite.rs` and `postgres.rs`
//! know that there are two drivers. Where the SQL itself must differ, a method such as
//! `Database::skip_locked` returns the fragment for the database in use.

use sqlx::postgres::PgPool;
use sqlx::sqlite::SqlitePool;
use sqlx::{Postgres, Sqlite, Transaction, query_with};

use crate::StoreError;
use crate::row::Row;
use crate::sql::Sql;

#[derive(Clone, Debug)]
pub(crate) enum Database {
    /// SQLite has one writer at a time. With a pool of one connection, writers wait here in FIFO
    /// order instead of in SQLite's busy loop, which is unfair and can time out under load. In WAL
    /// mode readers never wait for the writer.
    Sqlite {
        read: SqlitePool,
        write: SqlitePool,
    },
    Postgres(PgPool),
}

/// A read-write transaction; dropping it rolls it back.
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
    /// Runs a read-only query.
    pub(crate) async fn read(&self, sql: Sql<'_>) -> Result<Vec<Row>, StoreError> {
        Ok(match self {
            Database::Sqlite { read, .. } => sqlite_rows(sqlite!(sql, fetch_all, read)),
            Database::Postgres(pool) => postgres_rows(postgres!(sql, fetch_all, pool)),
        })
    }

    /// Runs a read-only query that returns at most one row.
    pub(crate) async fn read_one(&self, sql: Sql<'_>) -> Result<Option<Row>, StoreError> {
        Ok(self.read(sql).await?.pop())
    }

    /// Runs one statement as its own transaction; returns the number of changed rows.
    pub(crate) async fn write(&self, sql: Sql<'_>) -> Result<u64, StoreError> {
        Ok(match self {
            Database::Sqlite { write, .. } => sqlite!(sql, execute, write).rows_affected(),
            Database::Postgres(pool) => postgres!(sql, execute, pool).rows_affected(),
        })
    }

    /// Runs one statement as its own transaction; returns the rows of its RETURNING clause.
    pub(crate) async fn write_returning(&self, sql: Sql<'_>) -> Result<Vec<Row>, StoreError> {
        Ok(match self {
            // All rows are fetched, because SQLite commits only when a statement has been stepped
            // to its end.
            Database::Sqlite { write, .. } => sqlite_rows(sqlite!(sql, fetch_all, write)),
            Database::Postgres(pool) => postgres_rows(postgres!(sql, fetch_all, pool)),
        })
    }

    pub(crate) async fn begin(&self) -> Result<Tx, StoreError> {
        Ok(match self {
            // A plain BEGIN takes the write lock at the first write. If another process wrote
            // since the first read, SQLite fails at once with SQLITE_BUSY, without waiting.
            Database::Sqlite { write, .. } => {
                Tx::Sqlite(write.begin_with("BEGIN IMMEDIATE").await?)
            }
            Database::Postgres(pool) => Tx::Postgres(pool.begin().await?),
        })
    }

    /// The end of a SELECT that picks rows to change. On Postgres it locks them and skips rows that
    /// another transaction has locked; SQLite has one writer and needs nothing.
    pub(crate) fn skip_locked(&self) -> &'static str {
        match self {
            Database::Sqlite { .. } => "",
            Database::Postgres(_) => " FOR UPDATE SKIP LOCKED",
        }
    }

    /// The end of a SELECT of a row that this transaction is about to change.
    pub(crate) fn for_update(&self) -> &'static str {
        match self {
            Database::Sqlite { .. } => "",
            // No key column changes, so the weaker lock is enough. It does not conflict with the
            // FOR KEY SHARE locks that foreign keys take: inserts that refer to this row go on, and
            // waiting for them could deadlock.
            Database::Postgres(_) => " FOR NO KEY UPDATE",
        }
    }

    /// The end of a RETURNING clause in a transaction whose commit need not wait for the disk. The
    /// WAL is sequential: when a later commit is flushed, this one is too.
    pub(crate) fn without_flush(&self) -> &'static str {
        match self {
            Database::Sqlite { .. } => "",
            Database::Postgres(_) => ", set_config('synchronous_commit', 'off', TRUE) AS flushed",
        }
    }

    /// SQL for the current time of the database's clock, in microseconds since 1970. All processes
    /// share this clock. Leases are granted and expire by it, so that a process whose own clock is
    /// wrong neither loses its executions nor takes those of others.
    pub(crate) fn clock(&self) -> &'static str {
        match self {
            Database::Sqlite { .. } => "CAST(unixepoch('subsec') * 1000000 AS BIGINT)",
            Database::Postgres(_) => {
                "CAST(EXTRACT(EPOCH FROM statement_timestamp()) * 1000000 AS BIGINT)"
            }
        }
    }

    pub(crate) async fn close(&self) {
        match self {
            Database::Sqlite { read, write } => {
                // The writer is closed last: the last connection to close checkpoints the WAL into
                // the database file, which readers (`query_only`) cannot do.
                read.close().await;
                write.close().await;
            }
            Database::Postgres(pool) => pool.close().await,
        }
    }
}

impl Tx {
    pub(crate) async fn write(&mut self, sql: Sql<'_>) -> Result<u64, StoreError> {
        Ok(match self {
            Tx::Sqlite(tx) => sqlite!(sql, execute, &mut **tx).rows_affected(),
            Tx::Postgres(tx) => postgres!(sql, execute, &mut **tx).rows_affected(),
        })
    }

    /// Runs a query, or a statement with a RETURNING clause.
    pub(crate) async fn query(&mut self, sql: Sql<'_>) -> Result<Vec<Row>, StoreError> {
        Ok(match self {
            Tx::Sqlite(tx) => sqlite_rows(sqlite!(sql, fetch_all, &mut **tx)),
            Tx::Postgres(tx) => postgres_rows(postgres!(sql, fetch_all, &mut **tx)),
        })
    }

    /// Runs a query or statement that returns at most one row.
    pub(crate) async fn query_one(&mut self, sql: Sql<'_>) -> Result<Option<Row>, StoreError> {
        Ok(self.query(sql).await?.pop())
    }

    pub(crate) async fn commit(self) -> Result<(), StoreError> {
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
