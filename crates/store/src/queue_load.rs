//! The load of the installation, for metrics. Every count uses a partial index that holds only
//! queued, running or pending rows, and stops at a maximum, so that reading it is cheap however
//! long the history and the queue are.

use crate::db::Database;
use crate::sql::sql;
use crate::{Store, StoreError};

/// The load of the whole installation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueLoad {
    pub queued: i64,
    pub running: i64,
    pub webhooks_pending: i64,
}

impl QueueLoad {
    /// Counts stop here: at such a load the exact number does not matter.
    pub const MAX_COUNT: i64 = 100_000;
}

/// The database connections of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolStats {
    pub open: u32,
    pub idle: usize,
    pub max: u32,
}

impl Store {
    /// Counts over all tenants.
    pub async fn queue_load(&self) -> Result<QueueLoad, StoreError> {
        let select = sql("SELECT \
             (SELECT COUNT(*) FROM (SELECT 1 FROM executions WHERE status = 'queued' LIMIT $1) AS q) AS queued, \
             (SELECT COUNT(*) FROM (SELECT 1 FROM executions WHERE status = 'running' LIMIT $1) AS r) AS running, \
             (SELECT COUNT(*) FROM (SELECT 1 FROM webhooks WHERE state = 'pending' LIMIT $1) AS w) AS webhooks")
        .bind(QueueLoad::MAX_COUNT);
        let Some(row) = self.db.read_one(select).await? else { return Ok(QueueLoad::default()) };
        Ok(QueueLoad {
            queued: row.get("queued")?,
            running: row.get("running")?,
            webhooks_pending: row.get("webhooks")?,
        })
    }

    /// Counts readers and writers together.
    pub fn pool_stats(&self) -> PoolStats {
        match &self.db {
            Database::Sqlite { read, write } => PoolStats {
                open: read.size() + write.size(),
                idle: read.num_idle() + write.num_idle(),
                max: read.options().get_max_connections() + write.options().get_max_connections(),
            },
            Database::Postgres(pool) => PoolStats {
                open: pool.size(),
                idle: pool.num_idle(),
                max: pool.options().get_max_connections(),
            },
        }
    }
}
