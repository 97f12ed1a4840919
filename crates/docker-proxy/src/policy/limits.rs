//! Resource limits: each is present and within the operator's maximum.

use super::filesystem;
use crate::config::ContainerPolicy;
use crate::container::{HostConfig, Ulimit};
use crate::request_error::{RequestResult, forbidden};

/// The ulimits that a container may set to any bounded value. A large one does no harm to the host,
/// because the memory cgroup counts what they allow.
const BOUNDED_ULIMITS: &[&str] =
    &["core", "data", "fsize", "memlock", "msgqueue", "nofile", "nproc", "sigpending", "stack"];

/// These allow a higher priority than the host's own processes have, so they must be 0.
const PRIORITY_ULIMITS: &[&str] = &["nice", "rtprio"];

pub(super) fn check(host: &HostConfig, policy: &ContainerPolicy) -> RequestResult {
    let memory = check_range("Memory", host.memory, 1, policy.max_memory_bytes)?;
    if host.memory_swap != Some(memory) {
        return forbidden("MemorySwap other than Memory, which would be swap");
    }
    check_range("NanoCpus", host.nano_cpus, 1, policy.max_nano_cpus)?;
    check_range("PidsLimit", host.pids_limit, 1, policy.max_pids)?;
    // Without the OOM killer the host runs out of memory instead of the container.
    if host.oom_kill_disable == Some(true) {
        return forbidden("OomKillDisable");
    }
    host.ulimits.iter().flatten().try_for_each(check_ulimit)?;
    // Only a filler writes to the host's disk, where the memory limit has no effect.
    let max_file_size =
        if filesystem::is_filler(host) { policy.max_guest_bytes } else { policy.max_memory_bytes };
    check_file_size(host, max_file_size)
}

/// The file size has exactly one limit: of duplicate ulimits the engine uses the last.
fn check_file_size(host: &HostConfig, max: i64) -> RequestResult {
    let given: Vec<_> =
        host.ulimits.iter().flatten().filter(|limit| limit.name == "fsize").collect();
    match given.as_slice() {
        [limit] if limit.hard <= max => Ok(()),
        [limit] => {
            forbidden(format!("the ulimit \"fsize\" of {}, which is above {max}", limit.hard))
        }
        _ => forbidden("a container without exactly one ulimit \"fsize\""),
    }
}

fn check_range(name: &str, value: Option<i64>, min: i64, max: i64) -> RequestResult<i64> {
    match value {
        Some(value) if (min..=max).contains(&value) => Ok(value),
        Some(value) => forbidden(format!("{name} {value}, which is not between {min} and {max}")),
        None => forbidden(format!("a container without {name}")),
    }
}

/// Negative values are rejected: -1 means unlimited.
fn check_ulimit(limit: &Ulimit) -> RequestResult {
    let name = limit.name.as_str();
    let bounded = BOUNDED_ULIMITS.contains(&name) && 0 <= limit.soft && limit.soft <= limit.hard;
    let none = PRIORITY_ULIMITS.contains(&name) && limit.soft == 0 && limit.hard == 0;
    if bounded || none {
        Ok(())
    } else {
        forbidden(format!("the ulimit {name:?} of {}", limit.hard))
    }
}
