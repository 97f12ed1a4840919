//! The memory limit of this process, on which some defaults depend.

use std::fs;
use std::path::Path;

/// Without a limit, the process may use this fraction of the machine's memory: the sandboxes and
/// other programs need the rest.
const MACHINE_MEMORY_DIVISOR: u64 = 4;

/// The limit of the process's own control group, or a part of the machine's memory when that is
/// less. Nothing when neither can be read.
pub(super) fn available(root: &Path) -> Option<u64> {
    let machine = total(&fs::read_to_string(root.join("proc/meminfo")).ok()?)?;
    let limit = limit(root).unwrap_or(u64::MAX);
    // A limit above the machine's memory is none.
    Some(if limit < machine { limit } else { machine / MACHINE_MEMORY_DIVISOR })
}

/// Everything that requests and runs may buffer at once. The rest is for skills that are kept, for
/// what the program itself needs, and for what an allocator wastes.
pub(super) fn buffer_bytes(available: u64) -> u64 {
    (available / 5 * 2).clamp(64 << 20, 2 << 30)
}

/// Unpacked skills that are kept.
pub(super) fn skill_cache_bytes(available: u64) -> u64 {
    (available / 8).clamp(16 << 20, 256 << 20)
}

/// The lowest limit of the control groups that the process is in, of either version.
fn limit(root: &Path) -> Option<u64> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let of = |line: &str| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let (mount, file) = match controllers {
            "" => ("sys/fs/cgroup", "memory.max"),
            named if named.split(',').any(|name| name == "memory") => {
                ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => return None,
        };
        lowest(&root.join(mount), path, file)
    };
    groups.lines().filter_map(of).min()
}

/// A group's own limit or that of one around it. In a container the path may be one of the host, of
/// which only the container's own group is to be seen, at the mount itself.
fn lowest(mount: &Path, path: &str, file: &str) -> Option<u64> {
    let group = Path::new(path.trim_start_matches('/'));
    let read =
        |group: &Path| fs::read_to_string(mount.join(group).join(file)).ok()?.trim().parse().ok();
    group.ancestors().filter_map(read).min()
}

/// `MemTotal` of `/proc/meminfo`.
fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn machine(files: &[(&str, &str)]) -> Option<u64> {
        let root = tempfile::tempdir().expect("a directory");
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            fs::write(path, text).expect("a file");
        }
        available(root.path())
    }

    const MEMINFO: (&str, &str) = ("proc/meminfo", "MemTotal:        8388608 kB\nMemFree: 1 kB\n");

    #[test]
    fn the_lowest_limit_counts_in_either_version() {
        let two = [
            MEMINFO,
            ("proc/self/cgroup", "0::/pod/app\n"),
            ("sys/fs/cgroup/pod/memory.max", "1073741824\n"),
            ("sys/fs/cgroup/pod/app/memory.max", "max\n"),
        ];
        assert_eq!(machine(&two), Some(1024 * MIB));
        let one = [
            MEMINFO,
            ("proc/self/cgroup", "5:cpu,cpuacct:/a\n4:memory:/a\n0::/\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "536870912\n"),
        ];
        assert_eq!(machine(&one), Some(512 * MIB));
        let container = [
            MEMINFO,
            ("proc/self/cgroup", "4:memory:/docker/0123\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912\n"),
        ];
        assert_eq!(machine(&container), Some(512 * MIB), "the path is one of the host");
    }

    #[test]
    fn without_a_limit_the_machine_is_shared() {
        let unlimited = [MEMINFO, ("proc/self/cgroup", "0::/\n")];
        assert_eq!(machine(&unlimited), Some(2048 * MIB));
        assert_eq!(machine(&[]), None);
    }

    #[test]
    fn the_defaults_fit_what_compose_and_the_chart_allow() {
        let gib = 1024 * MIB;
        assert!(buffer_bytes(gib) + skill_cache_bytes(gib) < gib * 6 / 10);
        // The largest skill that can be uploaded fits the share of one tenant.
        assert!(buffer_bytes(gib) / 2 > (50 + 100 + 4) * MIB);
        assert_eq!((buffer_bytes(0), buffer_bytes(u64::MAX)), (64 * MIB, 2048 * MIB));
    }
}
