//! How often volumes are filled. A filler that is killed leaves a file on the host's disk until the
//! next one removes it, so what can lie there is bounded by how many are started in the time after
//! which such a file counts as left.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::config::Limits;
use crate::refusal::{Checked, Refusal};

#[derive(Default)]
pub struct Fills(Mutex<VecDeque<Instant>>);

impl Fills {
    /// Counts one more, unless there were too many lately.
    pub fn start(&self, limits: &Limits, now: Instant) -> Checked {
        let mut started = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while started
            .front()
            .is_some_and(|first| now.saturating_duration_since(*first) >= limits.fill_window)
        {
            started.pop_front();
        }
        if started.len() < limits.fills {
            started.push_back(now);
            return Ok(());
        }
        let seconds = limits.fill_window.as_secs();
        Err(Refusal::TooMany(format!(
            "volumes were filled {} times within {seconds} seconds; try later",
            limits.fills
        )))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_window_of_time_takes_so_many_and_then_more() {
        let limits = Limits { fills: 2, fill_window: Duration::from_secs(60), ..Limits::default() };
        let (fills, start) = (Fills::default(), Instant::now());
        let after = |seconds| fills.start(&limits, start + Duration::from_secs(seconds)).is_ok();
        assert_eq!([0, 30, 59, 60, 89, 90].map(after), [true, true, false, true, false, true]);
    }
}
