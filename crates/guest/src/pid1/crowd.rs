//! Whether there are more processes than allowed, where no control group holds them: under gVisor,
//! whose kernel has a limit on itself, and dies of it, but none on those inside; and in pods, of
//! which nobody can say how many they may have.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use super::cgroup::Cgroup;
use super::measure;

/// Looked at as often as this, because a crowd doubles with every step.
const INTERVAL: Duration = Duration::from_millis(4);

pub struct Crowd {
    most: Option<u32>,
    cgroup: Option<Cgroup>,
    gvisor: bool,
    too_many: bool,
    looked: Instant,
}

impl Crowd {
    /// Watches only when there is a number to hold, and the control group does not hold it.
    pub fn new(most: Option<u32>, cgroup: Option<Cgroup>) -> Self {
        let held = cgroup.and_then(|cgroup| cgroup.held().pids);
        let most = most.filter(|most| held.is_none_or(|held| held > u64::from(*most)));
        Crowd {
            most,
            cgroup,
            gvisor: measure::is_gvisor(),
            too_many: false,
            looked: Instant::now(),
        }
    }

    /// How long to sleep at most, when there is something to watch.
    pub fn tick(&self) -> Option<Duration> {
        self.most.map(|_| INTERVAL)
    }

    /// Looks again if the last look was some time ago.
    pub fn sample(&mut self) {
        let Some(most) = self.most.filter(|_| self.looked.elapsed() >= INTERVAL) else { return };
        self.looked = Instant::now();
        // Threads too; this process does not count.
        self.too_many |= self.count() > u64::from(most) + 1;
    }

    /// Whether any look found too many.
    pub fn is_too_large(&self) -> bool {
        self.too_many
    }

    fn count(&self) -> u64 {
        match self.cgroup.and_then(Cgroup::processes) {
            Some(processes) => processes,
            // Its kernel has nobody but us.
            None if self.gvisor => u64::from(rustix::system::sysinfo().procs),
            None => listed(),
        }
    }
}

/// The threads of every process that can be seen: a directory each, beside the two that every
/// directory counts.
fn listed() -> u64 {
    let Ok(processes) = fs::read_dir("/proc") else { return 0 };
    let is_number = |name: &OsStr| name.as_encoded_bytes().iter().all(u8::is_ascii_digit);
    let processes = processes.flatten().filter(|entry| is_number(&entry.file_name()));
    processes
        .filter_map(|entry| {
            Some(entry.path().join("task").metadata().ok()?.nlink().saturating_sub(2))
        })
        .sum()
}
