//! The errors of the store.

/// A failed call of the store.
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
    /// The tenant of the change does not exist.
    #[error("not found")]
    NotFound,
    /// The change would exceed the tenant's storage quota; it was rolled back.
    #[error(
        "the tenant stores {used_bytes} of at most {limit_bytes} bytes, and this needs {needed_bytes} more"
    )]
    StorageFull { used_bytes: i64, limit_bytes: i64, needed_bytes: i64 },
    /// `PageRequest::after` is not a cursor of this list.
    #[error("the cursor is not one of this list")]
    InvalidCursor,
    /// The DSN cannot be used; the text says what to change.
    #[error("{0}")]
    InvalidDsn(String),
    /// The database lacks migrations that this program needs.
    #[error(
        "the database schema is at migration {current} and this program needs migration {required}; \
         run `skillbox migrate`"
    )]
    SchemaTooOld { current: i64, required: i64 },
    /// A newer program has changed the schema in a way that this one must not use.
    #[error(
        "the database schema needs a newer Skillbox (one that knows migration {required}; this one \
         knows {known}). Start the newer version, or restore the backup from before the upgrade"
    )]
    SchemaTooNew { required: i64, known: i64 },
    /// Another session holds the lock of a table that a migration changes.
    #[error(
        "migration {migration} is blocked by a table lock of another session, such as a backup or a \
         long query. Nothing was changed; retry when that session has finished"
    )]
    TableLocked { migration: i64 },
    #[error("the database failed")]
    Database(#[source] sqlx::Error),
    #[error("the database could not be migrated")]
    Migration(#[from] sqlx::migrate::MigrateError),
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> StoreError {
        // Every foreign key refers, directly or indirectly, to a tenant: a violation means that the
        // tenant, or an object of it, does not exist.
        match error.as_database_error() {
            Some(database) if database.is_foreign_key_violation() => StoreError::NotFound,
            _ => StoreError::Database(error),
        }
    }
}

impl StoreError {
    /// True when the database could not be reached, so that the same call may succeed on retry.
    pub fn is_outage(&self) -> bool {
        match self {
            StoreError::Database(sqlx::Error::Database(error)) => {
                // SQLSTATE classes: connection failure (08), server starting or shutting down
                // (57P), too many connections (53300).
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

    /// Turns a violated unique constraint into `Conflict(why)`; other errors stay unchanged.
    pub(crate) fn or_conflict(self, why: &'static str) -> StoreError {
        match &self {
            StoreError::Database(sqlx::Error::Database(error)) if error.is_unique_violation() => {
                StoreError::Conflict(why)
            }
            _ => self,
        }
    }
}
