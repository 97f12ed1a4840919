//! The database of `skillbox bench store`: created next to the configured one, filled, and dropped
//! again. Nothing else on the server is changed. Only Postgres is measured.

use sqlx::postgres::{PgConnectOptions, PgPool};
use sqlx::{Connection, Executor, PgConnection, Row};

use crate::db::Database;
use crate::{FinishedExecution, Store, StoreError, TenantId, postgres};

const DATABASE_NAME: &str = "skillbox_bench";

/// Rows per INSERT statement.
const ROWS_PER_INSERT: i64 = 20_000;

/// The settings that determine the performance of Postgres.
const REPORTED_SETTINGS: [&str; 9] = [
    "server_version", "shared_buffers", "fsync", "synchronous_commit", "full_page_writes",
    "wal_buffers", "max_wal_size", "max_connections", "autovacuum",
];

pub struct BenchDatabase {
    pub store: Store,
    pub tenants: Vec<TenantId>,
    pool: PgPool,
    options: PgConnectOptions,
}

/// The size of the table of executions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BenchTableSizes {
    pub executions: i64,
    /// Including TOAST.
    pub table_bytes: i64,
    pub index_bytes: i64,
}

impl BenchDatabase {
    /// Creates the database on the server of `dsn`. A conflict when it exists, because another
    /// measurement may be using it.
    pub async fn create(dsn: &str, tenants: usize) -> Result<BenchDatabase, StoreError> {
        let options = postgres::options(dsn)?;
        let mut connection = PgConnection::connect_with(&options).await?;
        let created = connection.execute("CREATE DATABASE skillbox_bench").await;
        connection.close().await?;
        created.map_err(|error| match error.as_database_error().and_then(|error| error.code()) {
            Some(code) if code == "42P04" => StoreError::Conflict(
                "the database `skillbox_bench` exists: another measurement is running or was killed. \
                 If none is running, drop it",
            ),
            Some(code) if code == "42501" => {
                StoreError::Conflict("this Postgres user may not create a database; give it CREATEDB")
            }
            _ => error.into(),
        })?;
        let pool = postgres::open_pool(options.clone().database(DATABASE_NAME)).await?;
        let store = Store::from_database(Database::Postgres(pool.clone()));
        let mut bench = BenchDatabase { store, tenants: Vec::new(), pool, options };
        for number in 0..tenants {
            let tenant = format!("bench-{number}").parse().map_err(|_| StoreError::NotFound)?;
            bench.store.ensure_tenant(&tenant).await?;
            bench.tenants.push(tenant);
        }
        Ok(bench)
    }

    /// Drops the database.
    pub async fn remove(self) -> Result<(), StoreError> {
        self.store.close().await;
        let mut connection = PgConnection::connect_with(&self.options).await?;
        connection.execute("DROP DATABASE skillbox_bench WITH (FORCE)").await?;
        connection.close().await?;
        Ok(())
    }

    /// Inserts `rows` more executions with this result, a fourth of them with a file.
    pub async fn insert_finished(
        &self,
        rows: i64,
        result: &FinishedExecution,
        input: &str,
    ) -> Result<(), StoreError> {
        let first = self.table_sizes().await?.executions;
        for from in (first..first + rows).step_by(ROWS_PER_INSERT as usize) {
            let to = (from + ROWS_PER_INSERT).min(first + rows) - 1;
            let fill = sqlx::query(FILL)
                .bind(from)
                .bind(to)
                .bind(self.tenants.len() as i64)
                .bind(crate::now())
                .bind(input)
                .bind(&result.output)
                .bind(&result.logs)
                .bind(&result.detail)
                .bind(&result.receipt);
            fill.execute(&self.pool).await?;
        }
        self.pool.execute(FILES).await?;
        self.clear_active().await
    }

    /// Inserts `rows` queued executions, spread over the tenants.
    pub async fn insert_queued(&self, rows: i64, input: &str) -> Result<(), StoreError> {
        let queue = sqlx::query(QUEUE)
            .bind(rows)
            .bind(self.tenants.len() as i64)
            .bind(crate::now())
            .bind(input);
        queue.execute(&self.pool).await?;
        Ok(())
    }

    /// Deletes queued and running executions, and vacuums now what autovacuum would vacuum later.
    pub async fn clear_active(&self) -> Result<(), StoreError> {
        self.pool.execute("DELETE FROM executions WHERE status IN ('queued', 'running')").await?;
        self.pool.execute("VACUUM (ANALYZE) executions, files, tenants").await?;
        Ok(())
    }

    pub async fn table_sizes(&self) -> Result<BenchTableSizes, StoreError> {
        let select = "SELECT (SELECT COUNT(*) FROM executions), pg_table_size('executions'), pg_indexes_size('executions')";
        let row = sqlx::query(select).fetch_one(&self.pool).await?;
        Ok(BenchTableSizes {
            executions: row.try_get(0)?,
            table_bytes: row.try_get(1)?,
            index_bytes: row.try_get(2)?,
        })
    }

    /// The bytes of WAL that the server has written so far: the load on the disk and on replicas.
    pub async fn wal_bytes(&self) -> Result<i64, StoreError> {
        let select = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint";
        Ok(sqlx::query_scalar(select).fetch_one(&self.pool).await?)
    }

    /// The server settings that the results depend on.
    pub async fn settings(&self) -> Result<Vec<(String, String)>, StoreError> {
        let select = "SELECT name, current_setting(name) FROM pg_settings WHERE name = ANY($1) ORDER BY name";
        let names = REPORTED_SETTINGS.map(str::to_owned).to_vec();
        let rows = sqlx::query(select).bind(names).fetch_all(&self.pool).await?;
        rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
    }
}

/// Ids ascend with time, as real ones do: the insertion order determines the cost of an index.
const FILL: &str = "INSERT INTO executions (id, tenant, skill_name, skill_version, digest, status, attempt, started, \
        token, created_at, started_at, finished_at, duration_ms, outcome, exit_code, has_archive, input, request, output, \
        logs, detail, receipt) \
    SELECT '00000000-' || lpad(to_hex(n >> 16), 4, '0') || '-7' || lpad(to_hex((n >> 4) & 4095), 3, '0') || '-8' \
            || lpad(to_hex(n & 15), 3, '0') || '-' || substr(md5(n::text), 1, 12), \
        'bench-' || n % $3, 'bench', '1.0.0', 'sha256:' || md5('bench'), 'success', 1, TRUE, 1, $4 - 1000000000 + n, \
        $4 - 1000000000 + n, $4 - 999000000 + n, 50, 'exited', 0, n % 4 = 0, $5, '', $6, $7, $8, $9 \
    FROM generate_series($1::bigint, $2::bigint) AS n";

const FILES: &str = "INSERT INTO files (id, tenant, execution_id, name, content_type, size_bytes, sha256, blob_key, \
        version, created_at, updated_at) \
    SELECT md5(e.id)::uuid::text, e.tenant, e.id, 'result.csv', 'text/csv', 1000, md5(e.id) || md5(e.id), \
        e.tenant || '/executions/' || e.id || '/1/result.csv', 1, e.created_at, e.created_at \
    FROM executions AS e WHERE e.has_archive AND NOT EXISTS (SELECT 1 FROM files WHERE execution_id = e.id)";

const QUEUE: &str = "INSERT INTO executions (id, tenant, skill_name, skill_version, digest, status, attempt, token, \
        created_at, input, request) \
    SELECT gen_random_uuid()::text, 'bench-' || n % $2, 'bench', '1.0.0', 'sha256:' || md5('bench'), 'queued', 0, 0, \
        $3 + n, $4, '{\"skill\":\"bench\"}' \
    FROM generate_series(1, $1::bigint) AS n";
