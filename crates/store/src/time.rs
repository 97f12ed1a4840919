//! Time as it is stored in the database.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Microseconds since 1970, UTC.
pub type Micros = i64;

/// The current time; every call in this process returns a later time than the one before.
///
/// Lists and `latest` sort by time. Two rows written one after the other must therefore differ, and
/// a clock that is set back must not make the newest upload an old one.
pub fn now() -> Micros {
    static LAST: AtomicI64 = AtomicI64::new(0);
    let clock = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| i64::try_from(since.as_micros()).unwrap_or(i64::MAX));
    let last = LAST
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(clock.max(last + 1)))
        .unwrap_or_else(|last| last);
    clock.max(last + 1)
}

#[cfg(test)]
mod tests {
    use super::now;

    #[test]
    fn every_call_returns_a_later_time() {
        let times: Vec<_> = (0..10_000).map(|_| now()).collect();
        assert!(times.is_sorted_by(|a, b| a < b));
    }
}
