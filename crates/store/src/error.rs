//! What can go wrong between us and the database.

/// A failed call on the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The change contradicts what is stored; the text says how.
    #[error("{0}")]
    Conflict(&'static str),
    /// The version exists with other content and the tenant's policy is `immutable`.
    #[error("this version exists with other content and versions are immutable")]
    VersionExists,
    /// The idempotency key was used before with another body.
    #[error("this idempotency key was used with another request body")]
    IdempotencyMismatch,
    /// The tenant the change is for does not exist.
    #[error("not found")]
    NotFound,
    /// The change would exceed what the tenant may store; it was undone.
    #[error(
        "the tenant stores {used_bytes} of at most {limit_bytes} bytes, and this needs {needed_bytes} more"
    )]
    StorageFull { used_bytes: i64, limit_bytes: i64, needed_bytes: i64 },
    /// `PageRequest::after` is not a cursor this list has made.
    #[error("the cursor is not one this list has made")]
    Cursor,
    /// The database name cannot be used; the text says what to do.
    #[error("{0}")]
    Dsn(String),
    /// The tables lack steps that this program needs.
    #[error(
        "the tables are at step {taken} and this program needs step {needed}; run `skillbox migrate`"
    )]
    Behind { taken: i64, needed: i64 },
    /// A newer program has changed the tables so that this one must not use them.
    #[error(
        "a newer Skillbox has changed the tables (a program must know step {needed}, this one knows {known}). Start that \
         newer one, or restore the backup that was made before the upgrade"
    )]
    Newer { needed: i64, known: i64 },
    /// Somebody holds the lock of a table that a step changes.
    #[error(
        "step {step} of the tables waits for a lock that somebody else holds, such as a backup or a long query. Nothing \
         was changed; try again when that has ended"
    )]
    TableLocked { step: i64 },
    #[error("the database failed")]
    Database(#[source] sqlx::Error),
    #[error("the database could not be brought up to date")]
    Migration(#[from] sqlx::migrate::MigrateError),
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> StoreError {
        // Every table's foreign key leads, in the end, to a tenant that must exist.
        match error.as_database_error() {
            Some(database) if database.is_foreign_key_violation() => StoreError::NotFound,
            _ => StoreError::Database(error),
        }
    }
}

impl StoreError {
    /// True when the database could not be asked, so that the same call may succeed in a moment.
    pub fn is_outage(&self) -> bool {
        match self {
            StoreError::Database(sqlx::Error::Database(error)) => {
                // SQLSTATE: the connection broke, the server is starting or stopping, or has no
                // connection left.
                error.code().is_some_and(|code| {
                    ["08", "57P", "53300"].iter().any(|class| code.starts_with(class))
                })
            }
            StoreError::Database(error) => {
                matches!(
                    error,
                    sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed
                )
            }
            _ => false,
        }
    }

    /// A broken uniqueness rule becomes `Conflict(why)`; anything else stays what it was.
    pub(crate) fn or_conflict(self, why: &'static str) -> StoreError {
        match &self {
            StoreError::Database(sqlx::Error::Database(error)) if error.is_unique_violation() => {
                StoreError::Conflict(why)
            }
            _ => self,
        }
    }
}
