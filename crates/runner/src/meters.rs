//! Counters and histograms of this process since its start. None is kept by tenant or by skill:
//! those are unbounded in number, and operators who watch machines need not see them.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use sandbox::Outcome;
use store::{FinishedExecution, Status};

use crate::runner::Runner;

/// The final statuses of an execution.
const FINAL_STATUSES: [Status; 4] =
    [Status::Success, Status::Failed, Status::Timeout, Status::Cancelled];

/// The counters of one process.
#[derive(Debug, Default)]
pub struct Meters {
    ended: [[AtomicU64; Outcome::ALL.len()]; FINAL_STATUSES.len()],
    /// From acceptance, or from the claim, to the record.
    pub duration: Histogram,
    /// Successful launches, each from the request to the waiting guest.
    pub launch: Histogram,
    pub launches_failed: Counter,
    /// Attempts whose lease was lost before they were recorded.
    pub leases_lost: Counter,
    /// Executions of dead workers that the reaper of this process requeued.
    pub requeued: Counter,
    /// Executions of dead workers that the reaper of this process failed as lost.
    pub given_up: Counter,
}

/// The slots of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slots {
    pub used: usize,
    pub all: usize,
}

#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

/// A histogram of durations. All histograms have the same bounds, so that their graphs can be
/// compared.
#[derive(Debug, Default)]
pub struct Histogram {
    counts: [AtomicU64; Histogram::BOUNDS_MS.len()],
    /// Beyond the last bound.
    longer: AtomicU64,
    sum_us: AtomicU64,
}

/// The counts of a histogram at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Counted {
    /// Cumulative counts by ascending upper bound in milliseconds.
    pub up_to_ms: Vec<(u64, u64)>,
    pub count: u64,
    pub sum_s: f64,
}

impl Counter {
    pub fn add(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

impl Histogram {
    /// From a native sandbox's start to the longest timeout there is by default.
    pub const BOUNDS_MS: [u64; 15] =
        [2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000, 120_000, 600_000];

    pub fn record(&self, took: Duration) {
        let bound = Self::BOUNDS_MS.iter().position(|bound| took <= Duration::from_millis(*bound));
        let count = bound.map_or(&self.longer, |bound| &self.counts[bound]);
        count.fetch_add(1, Relaxed);
        self.sum_us.fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Relaxed);
    }

    /// The total is the sum of the parts as they are read, so no part is ever greater than the
    /// total.
    pub fn counted(&self) -> Counted {
        let mut count = 0;
        let mut up_to_ms = Vec::with_capacity(Self::BOUNDS_MS.len());
        for (bound, part) in Self::BOUNDS_MS.iter().zip(&self.counts) {
            count += part.load(Relaxed);
            up_to_ms.push((*bound, count));
        }
        count += self.longer.load(Relaxed);
        Counted { up_to_ms, count, sum_s: self.sum_us.load(Relaxed) as f64 / 1e6 }
    }
}

impl Meters {
    /// Counts an execution that was recorded.
    pub(crate) fn count_recorded(&self, finished: &FinishedExecution) {
        self.duration
            .record(Duration::from_millis(u64::try_from(finished.duration_ms).unwrap_or(0)));
        if let Ok(outcome) = finished.outcome.parse() {
            self.count_end(finished.status, outcome);
        }
    }

    /// Counts an execution that ended.
    pub(crate) fn count_end(&self, status: Status, outcome: Outcome) {
        let status = FINAL_STATUSES.iter().position(|end| *end == status);
        let outcome = Outcome::ALL.iter().position(|known| *known == outcome);
        if let (Some(status), Some(outcome)) = (status, outcome) {
            self.ended[status][outcome].fetch_add(1, Relaxed);
        }
    }

    /// The number of executions by status and outcome, without those that never occurred.
    pub fn ended(&self) -> Vec<(Status, Outcome, u64)> {
        let by_status = FINAL_STATUSES.iter().zip(&self.ended);
        let all = by_status.flat_map(|(status, counts)| {
            Outcome::ALL
                .iter()
                .zip(counts)
                .map(|(outcome, count)| (*status, *outcome, count.load(Relaxed)))
        });
        all.filter(|(.., count)| *count > 0).collect()
    }
}

impl Runner {
    pub fn meters(&self) -> &Meters {
        &self.meters
    }

    pub fn slots(&self) -> Slots {
        let all = if self.launcher.is_some() { self.config.slots } else { 0 };
        Slots { used: all.saturating_sub(self.slots.available_permits()), all }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_counts_each_value_once_and_cumulates() {
        let histogram = Histogram::default();
        for ms in [1, 2, 3, 600_000, 600_001] {
            histogram.record(Duration::from_millis(ms));
        }
        let counted = histogram.counted();
        assert_eq!(counted.up_to_ms[..2], [(2, 2), (5, 3)]);
        assert_eq!((counted.up_to_ms.last(), counted.count), (Some(&(600_000, 4)), 5));
        assert!((counted.sum_s - 1200.007).abs() < 1e-6, "{}", counted.sum_s);
    }

    #[test]
    fn ends_are_counted_by_status_and_outcome() {
        let meters = Meters::default();
        meters.count_end(Status::Failed, Outcome::OutOfMemory);
        meters.count_end(Status::Failed, Outcome::OutOfMemory);
        meters.count_end(Status::Running, Outcome::Exited);
        assert_eq!(meters.ended(), [(Status::Failed, Outcome::OutOfMemory, 2)]);
    }
}
