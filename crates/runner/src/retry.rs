//! Retries of database calls while the database is restarted or unreachable. Only for calls that
//! may safely be made twice.

use std::time::Duration;

use store::StoreError;

/// Delays between tries; each try has the timeout of the connection pool besides.
const RETRY_DELAYS: [Duration; 5] = [
    Duration::from_millis(20),
    Duration::from_millis(100),
    Duration::from_millis(500),
    Duration::from_secs(2),
    Duration::from_secs(5),
];

/// The value of a call that succeeded in the end.
pub(crate) struct Retried<T> {
    pub value: T,
    /// An earlier try failed, and a failed try may have been committed without its answer reaching
    /// us.
    pub maybe_committed: bool,
}

/// The first value of `call`, or its last error if the database stays away.
pub(crate) async fn retry_transient<T, F>(
    what: &str,
    call: impl Fn() -> F,
) -> Result<Retried<T>, StoreError>
where
    F: Future<Output = Result<T, StoreError>>,
{
    let mut delays = RETRY_DELAYS.iter();
    loop {
        match (call().await, delays.next()) {
            (Ok(value), _) => {
                let maybe_committed = delays.len() < RETRY_DELAYS.len() - 1;
                return Ok(Retried { value, maybe_committed });
            }
            (Err(error @ StoreError::Database(_)), Some(delay)) => {
                tracing::warn!(%error, "{what} failed; trying again");
                tokio::time::sleep(*delay).await;
            }
            (Err(error), _) => return Err(error),
        }
    }
}
