//! The migrations, embedded in the program, and which program may use which schema.
//!
//! In a rolling upgrade an older program works for a while on a schema that a newer one has
//! changed. A migration therefore only adds: tables, indexes, columns that are nullable or have a
//! default, never a new value in an existing enumeration column. A migration that older programs
//! cannot work with declares that in its SQL: it writes the number of the first migration that a
//! program must know into `settings` under `oldest schema`, and older programs refuse to start.
//!
//! sqlx stores a checksum of each applied migration, so a released `.sql` file must never change.

use std::time::Duration;

use sqlx::migrate::{Migrate, MigrateError, Migration, MigrationType};
use sqlx::{AssertSqlSafe, SqlSafeStr};

use crate::StoreError;

const MIGRATIONS: &[(i64, &str, &str)] = &[
    (1, "initial", include_str!("../../../migrations/0001_initial.sql")),
    (2, "production", include_str!("../../../migrations/0002_production.sql")),
    (3, "scanning", include_str!("../../../migrations/0003_scanning.sql")),
    (4, "trust", include_str!("../../../migrations/0004_trust.sql")),
    (5, "files", include_str!("../../../migrations/0005_files.sql")),
    (6, "capacity", include_str!("../../../migrations/0006_capacity.sql")),
    (7, "skill files", include_str!("../../../migrations/0007_skill_files.sql")),
    (8, "storage", include_str!("../../../migrations/0008_storage.sql")),
    (9, "audit_chain", include_str!("../../../migrations/0009_audit_chain.sql")),
];

/// SQL that is appended to a migration on one database only: the migration's version, the text for
/// SQLite and the text for Postgres.
const DIALECT_SQL: &[(i64, &str, &str)] = &[(
    8,
    include_str!("../../../migrations/0008_storage.sqlite.sql"),
    include_str!("../../../migrations/0008_storage.postgres.sql"),
)];

/// The table of applied migrations; sqlx defines the name.
const MIGRATIONS_TABLE: &str = "_sqlx_migrations";

/// Attempts, and the delay between them, when another session has locked a table that a migration
/// changes. A waiting ALTER TABLE blocks every later query on the table; during the delay those
/// queries proceed.
const MAX_LOCK_ATTEMPTS: u32 = 15;
const LOCK_RETRY_DELAY: Duration = Duration::from_secs(2);

/// The result of `Store::migrate`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrationReport {
    /// The last migration applied before; 0 in an empty database.
    pub from: i64,
    /// The migrations applied now, by version and name.
    pub applied: Vec<(i64, &'static str)>,
    /// The last migration that is applied now. A newer program may have applied it.
    pub to: i64,
}

#[derive(Clone, Copy)]
pub(crate) enum Dialect {
    Sqlite,
    Postgres,
}

/// The queries on migrations that sqlx does not provide.
pub(crate) trait MigrationTarget: Migrate {
    const DIALECT: Dialect;
    /// Whether any migration was ever applied.
    async fn has_migrations_table(&mut self) -> Result<bool, sqlx::Error>;
    /// The first migration that a program must know to use this schema, if one declared that.
    async fn oldest_compatible(&mut self) -> Result<Option<String>, sqlx::Error>;
}

/// Applies the missing migrations. The caller holds a lock that makes other processes wait.
pub(crate) async fn migrate(
    connection: &mut impl MigrationTarget,
) -> Result<MigrationReport, StoreError> {
    connection.ensure_migrations_table(MIGRATIONS_TABLE).await?;
    let (from, missing) = find_missing(connection).await?;
    for migration in &missing {
        apply(connection, migration).await?;
    }
    let applied = missing
        .iter()
        .filter_map(|migration| MIGRATIONS.iter().find(|known| known.0 == migration.version));
    let applied: Vec<_> = applied.map(|&(version, name, _)| (version, name)).collect();
    let to = applied.last().map_or(from, |&(version, _)| version.max(from));
    Ok(MigrationReport { from, applied, to })
}

/// Checks that every migration is applied. Changes nothing.
pub(crate) async fn check_schema<T: MigrationTarget>(connection: &mut T) -> Result<(), StoreError> {
    let (current, missing) = match connection.has_migrations_table().await? {
        true => find_missing(connection).await?,
        false => (0, migrations(T::DIALECT).collect()),
    };
    match missing.is_empty() {
        true => Ok(()),
        false => Err(StoreError::SchemaTooOld { current, required: latest_version() }),
    }
}

/// The last applied migration, and those of this program that are not applied. An error when this
/// program must not use the schema.
async fn find_missing<T: MigrationTarget>(
    connection: &mut T,
) -> Result<(i64, Vec<Migration>), StoreError> {
    if let Some(version) = connection.dirty_version(MIGRATIONS_TABLE).await? {
        return Err(MigrateError::Dirty(version).into());
    }
    let applied = connection.list_applied_migrations(MIGRATIONS_TABLE).await?;
    let last = applied.last().map_or(0, |migration| migration.version);
    // Migrations that this program does not know are normal in a rolling upgrade: they only add.
    // It must stop only if one of them declares that older programs cannot work with it.
    if last > latest_version() {
        let required = connection.oldest_compatible().await?;
        let required = required.and_then(|version| version.parse().ok()).unwrap_or(0);
        if required > latest_version() {
            return Err(StoreError::SchemaTooNew { required, known: latest_version() });
        }
    }
    let mut missing = Vec::new();
    for migration in migrations(T::DIALECT) {
        match applied.iter().find(|applied| applied.version == migration.version) {
            None => missing.push(migration),
            Some(applied) if applied.checksum == migration.checksum => {}
            Some(_) => return Err(MigrateError::VersionMismatch(migration.version).into()),
        }
    }
    Ok((last, missing))
}

/// Applies one migration atomically.
async fn apply(
    connection: &mut impl MigrationTarget,
    migration: &Migration,
) -> Result<(), StoreError> {
    for _ in 1..MAX_LOCK_ATTEMPTS {
        match connection.apply(MIGRATIONS_TABLE, migration).await {
            Err(error) if is_locked(&error) => tokio::time::sleep(LOCK_RETRY_DELAY).await,
            applied => return Ok(applied.map(drop)?),
        }
    }
    match connection.apply(MIGRATIONS_TABLE, migration).await {
        Err(error) if is_locked(&error) => {
            Err(StoreError::TableLocked { migration: migration.version })
        }
        applied => Ok(applied.map(drop)?),
    }
}

/// Whether Postgres timed out waiting for a table lock; see `SET_LOCK_TIMEOUT` in `postgres.rs`.
fn is_locked(error: &MigrateError) -> bool {
    let (MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _)) = error else {
        return false;
    };
    error.as_database_error().and_then(|error| error.code()).is_some_and(|code| code == "55P03")
}

fn migrations(dialect: Dialect) -> impl Iterator<Item = Migration> {
    MIGRATIONS.iter().map(move |&(version, name, text)| {
        let text = match dialect_sql(version, dialect) {
            // Safe: both texts are constants of this program.
            Some(appended) => AssertSqlSafe(format!("{text}{appended}")).into_sql_str(),
            None => text.into_sql_str(),
        };
        Migration::new(version, name.into(), MigrationType::Simple, text, false)
    })
}

fn dialect_sql(version: i64, dialect: Dialect) -> Option<&'static str> {
    let &(_, sqlite, postgres) = DIALECT_SQL.iter().find(|dialects| dialects.0 == version)?;
    Some(match dialect {
        Dialect::Sqlite => sqlite,
        Dialect::Postgres => postgres,
    })
}

/// The last migration that this program knows.
fn latest_version() -> i64 {
    MIGRATIONS.last().map_or(0, |migration| migration.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_count_up_without_gaps() {
        assert!(MIGRATIONS.iter().map(|migration| migration.0).eq(1..=latest_version()));
    }

    /// False for SQL that removes something, or requires a value that an older program does not
    /// write.
    fn only_adds(text: &str) -> bool {
        let statements = text
            .lines()
            .map(|line| line.split("--").next().unwrap_or_default())
            .collect::<Vec<_>>()
            .join(" ");
        let upper = statements.to_uppercase();
        let removes =
            ["DROP ", "RENAME ", "ALTER COLUMN", "DELETE FROM", "TRUNCATE", "SET NOT NULL"];
        let requires = upper.split(';').any(|statement| {
            statement.contains("ADD COLUMN")
                && statement.contains("NOT NULL")
                && !statement.contains("DEFAULT")
        });
        !requires && !removes.iter().any(|keyword| upper.contains(keyword))
    }

    #[test]
    fn migrations_only_add_or_declare_the_oldest_compatible_program() {
        for (version, name, text) in MIGRATIONS {
            assert!(
                only_adds(text) || text.contains("'oldest schema'"),
                "migration {version} ({name})"
            );
            for dialect in [Dialect::Sqlite, Dialect::Postgres] {
                assert!(
                    only_adds(dialect_sql(*version, dialect).unwrap_or_default()),
                    "migration {version} ({name})"
                );
            }
        }
        assert!(!only_adds("ALTER TABLE a\n DROP COLUMN b;"));
        assert!(!only_adds("ALTER TABLE a ADD COLUMN b TEXT NOT NULL;"));
        assert!(only_adds(
            "ALTER TABLE a ADD COLUMN b TEXT NOT NULL DEFAULT ''; -- DROP nothing\n"
        ));
    }
}
