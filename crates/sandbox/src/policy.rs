//! The confinement that is common to the sandboxes of all backends.

use guest::jail::{LandlockRules, Rlimit};
use guest::protocol::paths;

use crate::launcher::Shape;

/// The directories that a script can write to.
pub(crate) const WRITABLE: [&str; 5] =
    [paths::SANDBOX, paths::SKILLS, paths::WORKSPACE, paths::TMP, "/dev/shm"];

/// The parts of `/proc` that describe the host and not the sandbox: devices, kernel, paths and the
/// boot id.
#[rustfmt::skip] // With one path per line it would fill a page.
pub(crate) const MASKED: &[&str] = &[
    "/proc/acpi", "/proc/asound", "/proc/bootconfig", "/proc/bus", "/proc/cgroups", "/proc/cmdline",
    "/proc/config.gz", "/proc/consoles", "/proc/devices", "/proc/diskstats", "/proc/driver",
    "/proc/fb", "/proc/fs", "/proc/interrupts", "/proc/iomem", "/proc/ioports", "/proc/irq",
    "/proc/kallsyms", "/proc/kcore", "/proc/key-users", "/proc/keys", "/proc/kmsg", "/proc/mdstat",
    "/proc/misc", "/proc/modules", "/proc/partitions", "/proc/pressure",
    "/proc/sched_debug", "/proc/scsi", "/proc/swaps", "/proc/sysrq-trigger",
    "/proc/timer_list", "/proc/tty",
    "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/kernel/random/boot_id",
];

/// Paths that are masked in addition where the guest has another way to count record locks.
pub(crate) const MASKED_NATIVELY: &[&str] = &["/proc/locks"];

const MAX_OPEN_FILES: u64 = 1024;
const MAX_STACK_BYTES: u64 = 8 << 20;
const MAX_LOCKED_BYTES: u64 = 64 << 10;

/// The limits per process. Memory and the number of processes are limited by a cgroup, which counts
/// the sum of all processes.
pub(crate) fn rlimits(shape: &Shape) -> Vec<(Rlimit, u64)> {
    vec![
        // Not 0, which would still start the host's core dump handler. See
        // `seccomp::FIXED_RLIMIT`.
        (Rlimit::Core, 1),
        (Rlimit::FileSize, shape.disk_bytes),
        (Rlimit::MemoryLock, MAX_LOCKED_BYTES),
        (Rlimit::MessageQueue, 0),
        (Rlimit::Nice, 0),
        (Rlimit::OpenFiles, MAX_OPEN_FILES),
        (Rlimit::PendingSignals, 1024),
        (Rlimit::RealtimePriority, 0),
        (Rlimit::Stack, MAX_STACK_BYTES),
    ]
}

/// The Landlock rules, as a second layer behind the mounts.
pub(crate) fn landlock() -> LandlockRules {
    LandlockRules {
        read_and_execute: vec!["/".to_owned()],
        // The other devices are read-only: the guest detects Landlock by a denied write to
        // /dev/zero. Nothing in /proc is writable, including `clear_refs` and `oom_score_adj`.
        read_and_write: vec!["/dev/null".to_owned()],
        everything: WRITABLE.map(str::to_owned).to_vec(),
    }
}
