//! `skillbox migrate`: migrates the configured database without starting a server.

use store::{MigrationReport, Store};

use crate::config::Config;
use crate::startup::data_dir::DataDir;
use crate::startup::serve::ServeError;

/// Returns the migrations that were applied. Several processes may do this at once, also while
/// servers run; an embedded server must be stopped, because it locks its data directory.
pub async fn migrate(config: &Config) -> Result<MigrationReport, ServeError> {
    let _lock = match config.db_dsn {
        Some(_) => None,
        None => Some(DataDir::open(&config.data_dir)?),
    };
    Store::migrate(&config.dsn()).await.map_err(ServeError::Store)
}
