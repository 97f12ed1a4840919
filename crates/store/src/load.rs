//! How much there is to do, counted for operators. Every count comes from an index that holds only
//! what waits or runs now, and stops at a bound, so that a look costs little however long history
//! and queue are.

use crate::db::Db;
use crate::sql::sql;
use crate::{Store, StoreError};

/// What waits and runs in the whole installation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    pub queued: i64,
    pub running: i64,
    pub webhooks_pending: i64,
}

impl Load {
    /// No count goes further: whoever has so much waiting needs no exact number.
    pub const MOST: i64 = 100_000;
}

/// The connections of this process to its database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connections {
    pub open: u32,
    pub idle: usize,
    pub max: u32,
}

impl Store {
    /// Across all tenants, and about none of them.
    pub async fn load(&self) -> Result<Load, StoreError> {
        let select = sql("SELECT \
             (SELECT COUNT(*) FROM (SELECT 1 FROM executions WHERE status = 'queued' LIMIT $1) AS q) AS queued, \
             (SELECT COUNT(*) FROM (SELECT 1 FROM executions WHERE status = 'running' LIMIT $1) AS r) AS running, \
             (SELECT COUNT(*) FROM (SELECT 1 FROM webhooks WHERE state = 'pending' LIMIT $1) AS w) AS webhooks")
        .bind(Load::MOST);
        let Some(row) = self.db.read_one(select).await? else { return Ok(Load::default()) };
        Ok(Load {
            queued: row.get("queued")?,
            running: row.get("running")?,
            webhooks_pending: row.get("webhooks")?,
        })
    }

    /// Readers and writers together.
    pub fn connections(&self) -> Connections {
        match &self.db {
            Db::Sqlite { read, write } => Connections {
                open: read.size() + write.size(),
                idle: read.num_idle() + write.num_idle(),
                max: read.options().get_max_connections() + write.options().get_max_connections(),
            },
            Db::Postgres(pool) => Connections {
                open: pool.size(),
                idle: pool.num_idle(),
                max: pool.options().get_max_connections(),
            },
        }
    }
}
