//! The sandbox's own cgroup, as visible (read-only) from inside a container.

use std::fs;

use guest::jail::Counters;
use guest::protocol::MeasuredCgroup;

use crate::launcher::parse_field;

const CGROUP_MOUNT: &str = "/sys/fs/cgroup";

/// cgroup v1 reports a missing limit as a number larger than any machine's memory.
const NO_LIMIT: u64 = 1 << 60;

/// The visible hierarchy. A native sandbox sees none; its launcher reads the counters.
#[derive(Clone, Copy)]
pub(super) enum Cgroup {
    V1,
    V2,
}

impl Cgroup {
    pub(super) fn find() -> Option<Cgroup> {
        match (read("cgroup.controllers"), read("memory/memory.limit_in_bytes")) {
            (Some(_), _) => Some(Cgroup::V2),
            (None, Some(_)) => Some(Cgroup::V1),
            (None, None) => None,
        }
    }

    /// The limits in force.
    pub(super) fn limits(self) -> MeasuredCgroup {
        match self {
            Cgroup::V1 => {
                let memory_bytes =
                    read_number("memory/memory.limit_in_bytes").filter(|bytes| *bytes < NO_LIMIT);
                let with_swap = read_number("memory/memory.memsw.limit_in_bytes");
                let quota =
                    read_number("cpu/cpu.cfs_quota_us").zip(read_number("cpu/cpu.cfs_period_us"));
                MeasuredCgroup {
                    version: 1,
                    memory_bytes,
                    no_swap: with_swap.is_some() && with_swap == memory_bytes,
                    pids: read_number("pids/pids.max"),
                    cpu_millis: quota.and_then(millis),
                }
            }
            Cgroup::V2 => {
                let quota = read("cpu.max").and_then(|text| {
                    let (quota, period) = text.trim().split_once(' ')?;
                    Some((quota.parse().ok()?, period.parse().ok()?))
                });
                MeasuredCgroup {
                    version: 2,
                    memory_bytes: read_number("memory.max"),
                    no_swap: read_number("memory.swap.max") == Some(0),
                    pids: read_number("pids.max"),
                    cpu_millis: quota.and_then(millis),
                }
            }
        }
    }

    /// The current number of processes and threads.
    pub(super) fn processes(self) -> Option<u64> {
        read_number(match self {
            Cgroup::V1 => "pids/pids.current",
            Cgroup::V2 => "pids.current",
        })
    }

    /// The counters of all processes of the sandbox, including this one.
    pub(super) fn counters(self) -> Counters {
        let counter =
            |file: &str, name: &str| read(file).as_deref().and_then(|text| parse_field(text, name));
        match self {
            Cgroup::V1 => Counters {
                cpu_micros: read_number("cpuacct/cpuacct.usage").unwrap_or(0) / 1000,
                peak_memory_bytes: read_number("memory/memory.max_usage_in_bytes").unwrap_or(0),
                oom_kills: counter("memory/memory.oom_control", "oom_kill").unwrap_or(0),
                forks_refused: counter("pids/pids.events", "max").unwrap_or(0),
            },
            Cgroup::V2 => Counters {
                cpu_micros: counter("cpu.stat", "usage_usec").unwrap_or(0),
                // Kernels before 5.19 have no memory.peak.
                peak_memory_bytes: read_number("memory.peak")
                    .or_else(|| read_number("memory.current"))
                    .unwrap_or(0),
                oom_kills: counter("memory.events", "oom_kill").unwrap_or(0),
                forks_refused: counter("pids.events", "max").unwrap_or(0),
            },
        }
    }
}

fn millis((quota, period): (u64, u64)) -> Option<u64> {
    (quota * 1000).checked_div(period)
}

fn read(file: &str) -> Option<String> {
    fs::read_to_string(format!("{CGROUP_MOUNT}/{file}")).ok()
}

/// Reads a file that contains one number; `None` for `max` and -1.
fn read_number(file: &str) -> Option<u64> {
    read(file)?.trim().parse().ok()
}
