//! The tables, one SQL text for both databases, carried inside the program.

use sqlx::SqlSafeStr;
use sqlx::migrate::{Migrate, Migration, MigrationType, Migrator};

use crate::StoreError;

const STEPS: &[(i64, &str, &str)] = &[(1, "initial", include_str!("../../../migrations/0001_initial.sql"))];

/// Takes the steps that this database has not taken.
pub(crate) async fn run(connection: &mut impl Migrate) -> Result<(), StoreError> {
    let steps = STEPS.iter().map(|&(version, name, text)| {
        let kind = MigrationType::Simple;
        Migration::new(version, name.into(), kind, text.into_sql_str(), false)
    });
    // `Migrator::run` is the same, but its future cannot be sent between threads.
    let migrator = Migrator::with_migrations(steps.collect());
    migrator.run_direct(None, connection, false).await?;
    Ok(())
}
