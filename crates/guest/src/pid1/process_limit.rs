//! The limit on processes where no cgroup enforces it: under gVisor, whose kernel limits itself
//! (and dies of it) but not the processes inside, and in pods, whose process limit cannot be set.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use super::cgroup::Cgroup;
use super::measure;

/// Short, because the processes of a fork bomb double with every step.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(4);

pub(super) struct ProcessLimit {
    /// `None` when the cgroup enforces the limit.
    max: Option<u32>,
    cgroup: Option<Cgroup>,
    gvisor: bool,
    exceeded: bool,
    sampled_at: Instant,
}

impl ProcessLimit {
    /// Samples only when a limit is given and the cgroup does not enforce one at least as strict.
    pub(super) fn new(max: Option<u32>, cgroup: Option<Cgroup>) -> Self {
        let cgroup_max = cgroup.and_then(|cgroup| cgroup.limits().pids);
        let max =
            max.filter(|max| cgroup_max.is_none_or(|cgroup_max| cgroup_max > u64::from(*max)));
        ProcessLimit {
            max,
            cgroup,
            gvisor: measure::is_gvisor(),
            exceeded: false,
            sampled_at: Instant::now(),
        }
    }

    /// The interval between samples, if there is a limit to enforce.
    pub(super) fn sample_interval(&self) -> Option<Duration> {
        self.max.map(|_| SAMPLE_INTERVAL)
    }

    /// Counts again if the last sample is older than the interval.
    pub(super) fn sample(&mut self) {
        let Some(max) = self.max.filter(|_| self.sampled_at.elapsed() >= SAMPLE_INTERVAL) else {
            return;
        };
        self.sampled_at = Instant::now();
        // Threads count too; this process does not.
        self.exceeded |= self.count() > u64::from(max) + 1;
    }

    /// Whether any sample exceeded the limit.
    pub(super) fn is_exceeded(&self) -> bool {
        self.exceeded
    }

    fn count(&self) -> u64 {
        match self.cgroup.and_then(Cgroup::processes) {
            Some(processes) => processes,
            // gVisor's kernel runs nothing but this sandbox.
            None if self.gvisor => u64::from(rustix::system::sysinfo().procs),
            None => count_listed_threads(),
        }
    }
}

/// The threads of all visible processes. Each thread is a directory in `task`, whose link count is
/// 2 plus the number of its subdirectories.
fn count_listed_threads() -> u64 {
    let Ok(processes) = fs::read_dir("/proc") else { return 0 };
    let is_number = |name: &OsStr| name.as_encoded_bytes().iter().all(u8::is_ascii_digit);
    let processes = processes.flatten().filter(|entry| is_number(&entry.file_name()));
    processes
        .filter_map(|entry| {
            Some(entry.path().join("task").metadata().ok()?.nlink().saturating_sub(2))
        })
        .sum()
}
