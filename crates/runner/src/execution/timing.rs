//! The measured duration of each step.

use std::time::{Duration, Instant};

/// Runs a step and notes how long it took.
pub(super) async fn timed<T>(elapsed_ms: &mut f64, step: impl Future<Output = T>) -> T {
    let began = Instant::now();
    let value = step.await;
    *elapsed_ms = millis(began.elapsed());
    value
}

/// Milliseconds with three decimals.
pub(super) fn millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}
