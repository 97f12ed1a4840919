//! `skillbox migrate`: the tables of the configured database, brought up to date without a server.

use store::{MigrationReport, Store};

use crate::config::Config;
use crate::startup::data_dir::DataDir;
use crate::startup::serve::ServeError;

/// Says what was done. Several may run at once, and beside servers; an embedded server must be
/// stopped, because its database is its own.
pub async fn migrate(config: &Config) -> Result<MigrationReport, ServeError> {
    let _held = match config.db_dsn {
        Some(_) => None,
        None => Some(DataDir::open(&config.data_dir)?),
    };
    Store::migrate(&config.dsn()).await.map_err(ServeError::Store)
}
