//! The tables, one SQL text for both databases, carried inside the program; and which program may
//! use which tables.
//!
//! Servers are replaced one by one, so for a while an older program works on tables that a newer
//! one has changed. A step therefore only adds: tables, indexes, columns that may be absent or have
//! a default, never a new word in an old column. A step that an older program cannot live with says
//! so in its own text, by writing the number of the first step a program must know into `settings`
//! under `oldest schema`; older programs then refuse to start.

use std::time::Duration;

use sqlx::migrate::{Migrate, MigrateError, Migration, MigrationType};
use sqlx::{AssertSqlSafe, SqlSafeStr};

use crate::StoreError;

const STEPS: &[(i64, &str, &str)] = &[
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

/// What follows the text of a step on one of the databases: the step's number, the text for SQLite
/// and that for Postgres.
const DIALECTS: &[(i64, &str, &str)] = &[(
    8,
    include_str!("../../../migrations/0008_storage.sqlite.sql"),
    include_str!("../../../migrations/0008_storage.postgres.sql"),
)];

/// Where the steps that were taken are written down; the name is sqlx's.
const TABLE: &str = "_sqlx_migrations";

/// How often, and with which pauses, a step is tried whose table somebody else has locked. In the
/// pauses everybody who waits behind us gets on.
const TRIES: u32 = 15;
const PAUSE: Duration = Duration::from_secs(2);

/// What `Store::migrate` did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrationReport {
    /// The last step that had been taken before; 0 in an empty database.
    pub from: i64,
    /// The steps taken now, by number and name.
    pub applied: Vec<(i64, &'static str)>,
    /// The last step that is taken now. It may be one of a newer program.
    pub to: i64,
}

#[derive(Clone, Copy)]
pub(crate) enum Dialect {
    Sqlite,
    Postgres,
}

/// What the two databases are asked beyond what sqlx asks them.
pub(crate) trait MigrationTarget: Migrate {
    const DIALECT: Dialect;
    /// Whether any step was ever taken.
    async fn exist(&mut self) -> Result<bool, sqlx::Error>;
    /// The first step that a program must know to use these tables, when one of them says so.
    async fn oldest(&mut self) -> Result<Option<String>, sqlx::Error>;
}

/// Takes the steps that this database has not taken. Whoever else wants to meanwhile waits.
pub(crate) async fn migrate(
    connection: &mut impl MigrationTarget,
) -> Result<MigrationReport, StoreError> {
    connection.ensure_migrations_table(TABLE).await?;
    let (from, missing) = look(connection).await?;
    for step in &missing {
        take(connection, step).await?;
    }
    let taken =
        missing.iter().filter_map(|step| STEPS.iter().find(|known| known.0 == step.version));
    let taken: Vec<_> = taken.map(|&(version, name, _)| (version, name)).collect();
    let to = taken.last().map_or(from, |&(version, _)| version.max(from));
    Ok(MigrationReport { from, applied: taken, to })
}

/// Changes nothing: the steps must have been taken by somebody else.
pub(crate) async fn expect<T: MigrationTarget>(connection: &mut T) -> Result<(), StoreError> {
    let (taken, missing) = match connection.exist().await? {
        true => look(connection).await?,
        false => (0, steps(T::DIALECT).collect()),
    };
    match missing.is_empty() {
        true => Ok(()),
        false => Err(StoreError::Behind { taken, needed: newest() }),
    }
}

/// The last step that was taken, and those of ours that were not. An error when this program must
/// not use the tables.
async fn look<T: MigrationTarget>(connection: &mut T) -> Result<(i64, Vec<Migration>), StoreError> {
    if let Some(version) = connection.dirty_version(TABLE).await? {
        return Err(MigrateError::Dirty(version).into());
    }
    let applied = connection.list_applied_migrations(TABLE).await?;
    let last = applied.last().map_or(0, |step| step.version);
    if last > newest() {
        let oldest = connection.oldest().await?.and_then(|oldest| oldest.parse().ok()).unwrap_or(0);
        if oldest > newest() {
            return Err(StoreError::Newer { needed: oldest, known: newest() });
        }
    }
    let mut missing = Vec::new();
    for step in steps(T::DIALECT) {
        match applied.iter().find(|applied| applied.version == step.version) {
            None => missing.push(step),
            Some(applied) if applied.checksum == step.checksum => {}
            Some(_) => return Err(MigrateError::VersionMismatch(step.version).into()),
        }
    }
    Ok((last, missing))
}

/// Takes one step, whole or not at all.
async fn take(connection: &mut impl MigrationTarget, step: &Migration) -> Result<(), StoreError> {
    for _ in 1..TRIES {
        match connection.apply(TABLE, step).await {
            Err(error) if is_locked(&error) => tokio::time::sleep(PAUSE).await,
            taken => return Ok(taken.map(drop)?),
        }
    }
    match connection.apply(TABLE, step).await {
        Err(error) if is_locked(&error) => Err(StoreError::TableLocked { step: step.version }),
        taken => Ok(taken.map(drop)?),
    }
}

/// Postgres gave up waiting for the lock of a table; see `LOCK_TIMEOUT` there.
fn is_locked(error: &MigrateError) -> bool {
    let (MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _)) = error else {
        return false;
    };
    error.as_database_error().and_then(|error| error.code()).is_some_and(|code| code == "55P03")
}

fn steps(dialect: Dialect) -> impl Iterator<Item = Migration> {
    STEPS.iter().map(move |&(version, name, text)| {
        let text = match more(version, dialect) {
            // Both are parts of this program.
            Some(more) => AssertSqlSafe(format!("{text}{more}")).into_sql_str(),
            None => text.into_sql_str(),
        };
        Migration::new(version, name.into(), MigrationType::Simple, text, false)
    })
}

fn more(version: i64, dialect: Dialect) -> Option<&'static str> {
    let &(_, sqlite, postgres) = DIALECTS.iter().find(|dialects| dialects.0 == version)?;
    Some(match dialect {
        Dialect::Sqlite => sqlite,
        Dialect::Postgres => postgres,
    })
}

/// The last step that this program knows.
fn newest() -> i64 {
    STEPS.last().map_or(0, |step| step.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_count_up_without_gaps() {
        assert!(STEPS.iter().map(|step| step.0).eq(1..=newest()));
    }

    /// A step that takes something away, or demands something that an older program does not write.
    fn only_adds(text: &str) -> bool {
        let words = text
            .lines()
            .map(|line| line.split("--").next().unwrap_or_default())
            .collect::<Vec<_>>()
            .join(" ");
        let upper = words.to_uppercase();
        let removes =
            ["DROP ", "RENAME ", "ALTER COLUMN", "DELETE FROM", "TRUNCATE", "SET NOT NULL"];
        let demands = upper.split(';').any(|statement| {
            statement.contains("ADD COLUMN")
                && statement.contains("NOT NULL")
                && !statement.contains("DEFAULT")
        });
        !demands && !removes.iter().any(|word| upper.contains(word))
    }

    #[test]
    fn a_step_only_adds_or_says_which_programs_it_shuts_out() {
        for (version, name, text) in STEPS {
            assert!(only_adds(text) || text.contains("'oldest schema'"), "step {version} ({name})");
            for dialect in [Dialect::Sqlite, Dialect::Postgres] {
                assert!(
                    only_adds(more(*version, dialect).unwrap_or_default()),
                    "step {version} ({name})"
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
