//! Patience with a database that is restarted or cut off: what may safely be done twice is tried
//! again for a while.

use std::time::Duration;

use store::StoreError;

/// Pauses between tries; each try has the patience of the connection pool besides.
const PAUSES: [Duration; 5] = [
    Duration::from_millis(20),
    Duration::from_millis(100),
    Duration::from_millis(500),
    Duration::from_secs(2),
    Duration::from_secs(5),
];

/// How a patient call ended.
pub struct Tried<T> {
    pub answer: T,
    /// Some tries failed, and a failed one may have come through without our hearing of it.
    pub unsure: bool,
}

/// The first answer of `act`, or its last error when the database stays away.
pub async fn patiently<T, F>(what: &str, act: impl Fn() -> F) -> Result<Tried<T>, StoreError>
where
    F: Future<Output = Result<T, StoreError>>,
{
    let mut pauses = PAUSES.iter();
    loop {
        match (act().await, pauses.next()) {
            (Ok(answer), _) => {
                return Ok(Tried { answer, unsure: pauses.len() < PAUSES.len() - 1 });
            }
            (Err(error @ StoreError::Database(_)), Some(pause)) => {
                tracing::warn!(%error, "{what} failed; trying again");
                tokio::time::sleep(*pause).await;
            }
            (Err(error), _) => return Err(error),
        }
    }
}
