//! Resources: each given, each within what the operator allows.

use super::filesystem;
use crate::config::Policy;
use crate::container::{HostConfig, Ulimit};
use crate::refusal::{Checked, forbidden};

/// Those that only a larger number of makes nothing worse on the host: the memory cgroup counts
/// what they allow.
const ULIMITS: &[&str] =
    &["core", "data", "fsize", "memlock", "msgqueue", "nofile", "nproc", "sigpending", "stack"];

/// A higher priority than the host's own processes comes with these, so they are nothing but 0.
const PRIORITIES: &[&str] = &["nice", "rtprio"];

pub fn check(host: &HostConfig, policy: &Policy) -> Checked {
    let memory = between("Memory", host.memory, 1, policy.max_memory_bytes)?;
    if host.memory_swap != Some(memory) {
        return forbidden("MemorySwap other than Memory, which would be swap");
    }
    between("NanoCpus", host.nano_cpus, 1, policy.max_nano_cpus)?;
    between("PidsLimit", host.pids_limit, 1, policy.max_pids)?;
    // It would leave the host without memory in place of the container.
    if host.oom_kill_disable == Some(true) {
        return forbidden("OomKillDisable");
    }
    host.ulimits.iter().flatten().try_for_each(ulimit)?;
    // Only a filler writes where memory does not count: to a volume on the host's disk.
    let most =
        if filesystem::fills(host) { policy.max_guest_bytes } else { policy.max_memory_bytes };
    file_size(host, most)
}

/// The size of a file is bounded, and by one value: of several the engine takes the last.
fn file_size(host: &HostConfig, most: i64) -> Checked {
    let given: Vec<_> =
        host.ulimits.iter().flatten().filter(|limit| limit.name == "fsize").collect();
    match given.as_slice() {
        [limit] if limit.hard <= most => Ok(()),
        [limit] => {
            forbidden(format!("the ulimit \"fsize\" of {}, which is above {most}", limit.hard))
        }
        _ => forbidden("a container without exactly one ulimit \"fsize\""),
    }
}

fn between(name: &str, value: Option<i64>, least: i64, most: i64) -> Checked<i64> {
    match value {
        Some(value) if (least..=most).contains(&value) => Ok(value),
        Some(value) => {
            forbidden(format!("{name} {value}, which is not between {least} and {most}"))
        }
        None => forbidden(format!("a container without {name}")),
    }
}

/// Minus one would be no limit at all.
fn ulimit(limit: &Ulimit) -> Checked {
    let name = limit.name.as_str();
    let bounded = ULIMITS.contains(&name) && 0 <= limit.soft && limit.soft <= limit.hard;
    let none = PRIORITIES.contains(&name) && limit.soft == 0 && limit.hard == 0;
    if bounded || none {
        Ok(())
    } else {
        forbidden(format!("the ulimit {name:?} of {}", limit.hard))
    }
}
