//! The control group of this sandbox as it can be seen from inside: in a container, and read-only.

use std::fs;

use guest::jail::Counters;
use guest::protocol::MeasuredCgroup;

use crate::launcher::field;

const MOUNT: &str = "/sys/fs/cgroup";

/// Larger than any machine: how v1 writes that there is no limit.
const NO_LIMIT: u64 = 1 << 60;

/// Which hierarchy is there. A native sandbox sees none; its launcher counts for it.
#[derive(Clone, Copy)]
pub enum Cgroup {
    V1,
    V2,
}

impl Cgroup {
    pub fn find() -> Option<Cgroup> {
        match (read("cgroup.controllers"), read("memory/memory.limit_in_bytes")) {
            (Some(_), _) => Some(Cgroup::V2),
            (None, Some(_)) => Some(Cgroup::V1),
            (None, None) => None,
        }
    }

    /// The limits that hold.
    pub fn held(self) -> MeasuredCgroup {
        match self {
            Cgroup::V1 => {
                let memory_bytes =
                    number("memory/memory.limit_in_bytes").filter(|bytes| *bytes < NO_LIMIT);
                let with_swap = number("memory/memory.memsw.limit_in_bytes");
                let quota = number("cpu/cpu.cfs_quota_us").zip(number("cpu/cpu.cfs_period_us"));
                MeasuredCgroup {
                    version: 1,
                    memory_bytes,
                    no_swap: with_swap.is_some() && with_swap == memory_bytes,
                    pids: number("pids/pids.max"),
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
                    memory_bytes: number("memory.max"),
                    no_swap: number("memory.swap.max") == Some(0),
                    pids: number("pids.max"),
                    cpu_millis: quota.and_then(millis),
                }
            }
        }
    }

    /// Processes and threads that there are now.
    pub fn processes(self) -> Option<u64> {
        number(match self {
            Cgroup::V1 => "pids/pids.current",
            Cgroup::V2 => "pids.current",
        })
    }

    /// What was counted for this process and everything that ran beside it.
    pub fn counters(self) -> Counters {
        let of = |file: &str, name: &str| read(file).as_deref().and_then(|text| field(text, name));
        match self {
            Cgroup::V1 => Counters {
                cpu_micros: number("cpuacct/cpuacct.usage").unwrap_or(0) / 1000,
                peak_memory_bytes: number("memory/memory.max_usage_in_bytes").unwrap_or(0),
                oom_kills: of("memory/memory.oom_control", "oom_kill").unwrap_or(0),
                forks_refused: of("pids/pids.events", "max").unwrap_or(0),
            },
            Cgroup::V2 => Counters {
                cpu_micros: of("cpu.stat", "usage_usec").unwrap_or(0),
                // Kernels before 5.19 do not keep the peak.
                peak_memory_bytes: number("memory.peak")
                    .or_else(|| number("memory.current"))
                    .unwrap_or(0),
                oom_kills: of("memory.events", "oom_kill").unwrap_or(0),
                forks_refused: of("pids.events", "max").unwrap_or(0),
            },
        }
    }
}

fn millis((quota, period): (u64, u64)) -> Option<u64> {
    (quota * 1000).checked_div(period)
}

fn read(file: &str) -> Option<String> {
    fs::read_to_string(format!("{MOUNT}/{file}")).ok()
}

/// A file that holds one number; `max` and -1 are none.
fn number(file: &str) -> Option<u64> {
    read(file)?.trim().parse().ok()
}
