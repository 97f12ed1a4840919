//! Rate limit on filling volumes. A filler that is killed leaves a file on the host's disk until
//! the next one removes it. The number of such files is bounded by the number of fillers started
//! within the time after which a filler treats a file as a leftover.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::config::ProxyLimits;
use crate::request_error::{RequestError, RequestResult};

/// The start times of recent fillers.
#[derive(Default)]
pub(crate) struct FillRateLimit(Mutex<VecDeque<Instant>>);

impl FillRateLimit {
    /// Records the start of a filler, or fails when too many were started within the window.
    pub(crate) fn record(&self, limits: &ProxyLimits, now: Instant) -> RequestResult {
        let mut started = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while started
            .front()
            .is_some_and(|first| now.saturating_duration_since(*first) >= limits.fill_window)
        {
            started.pop_front();
        }
        if started.len() < limits.max_fills {
            started.push_back(now);
            return Ok(());
        }
        let seconds = limits.fill_window.as_secs();
        Err(RequestError::RateLimited(format!(
            "volumes were filled {} times within {seconds} seconds; try again later",
            limits.max_fills
        )))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_window_accepts_the_maximum_number_of_fills() {
        let limits = ProxyLimits {
            max_fills: 2,
            fill_window: Duration::from_secs(60),
            ..ProxyLimits::default()
        };
        let (fill_limit, start) = (FillRateLimit::default(), Instant::now());
        let after =
            |seconds| fill_limit.record(&limits, start + Duration::from_secs(seconds)).is_ok();
        assert_eq!([0, 30, 59, 60, 89, 90].map(after), [true, true, false, true, false, true]);
    }
}
