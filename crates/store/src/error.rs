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
    /// `Page::after` is not a cursor this list has made.
    #[error("the cursor is not one this list has made")]
    Cursor,
    /// The database name cannot be used; the text says what to do.
    #[error("{0}")]
    Dsn(String),
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
