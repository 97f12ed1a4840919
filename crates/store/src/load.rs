//! How much there is to do, counted for operators. Every count comes from an index that holds only
//! what waits or runs now, and stops at a bound, so that a look costs little however long history
//! and queue are.

use crate::db::Database;
use crate::sql::sql;
use crate::{Store, StoreError};

/// What waits and runs in the whole installation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueLoad {
    pub queued: i64,
    pub running: i64,
    pub webhooks_pending: i64,
}

impl QueueLoad {
    /// No count goes further: whoever has so much waiting needs no exact number.
    pub const MAX_COUNT: i64 = 100_000;
}

/// The connections of this process to its database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolStats {
    pub open: u32,
    pub idle: usize,
    pub max: u32,
}

impl Store {
    /// Across all tenants, and about none of them.
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

    /// Readers and writers together.
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
