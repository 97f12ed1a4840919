//! What holds in every sandbox, whichever backend makes it.

use guest::jail::{LandlockRules, Rlimit};
use guest::protocol::paths;

use crate::launcher::Shape;

/// Everything a script may write.
pub const WRITABLE: [&str; 5] =
    [paths::SANDBOX, paths::SKILLS, paths::WORKSPACE, paths::TMP, "/dev/shm"];

/// Parts of `/proc` about the host rather than the sandbox: its devices, its kernel, its paths, and
/// what names this boot.
#[rustfmt::skip] // One path a line would make a page of it.
pub const MASKED: &[&str] = &[
    "/proc/acpi", "/proc/asound", "/proc/bootconfig", "/proc/bus", "/proc/cgroups", "/proc/cmdline",
    "/proc/config.gz", "/proc/consoles", "/proc/devices", "/proc/diskstats", "/proc/driver",
    "/proc/fb", "/proc/fs", "/proc/interrupts", "/proc/iomem", "/proc/ioports", "/proc/irq",
    "/proc/kallsyms", "/proc/kcore", "/proc/key-users", "/proc/keys", "/proc/kmsg", "/proc/mdstat",
    "/proc/misc", "/proc/modules", "/proc/partitions", "/proc/pressure",
    "/proc/sched_debug", "/proc/scsi", "/proc/swaps", "/proc/sysrq-trigger",
    "/proc/timer_list", "/proc/tty",
    "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/kernel/random/boot_id",
];

/// What else is masked where the guest gets it by other means: to see how many record locks its
/// script holds.
pub const MASKED_NATIVELY: &[&str] = &["/proc/locks"];

const OPEN_FILES: u64 = 1024;
const STACK_BYTES: u64 = 8 << 20;
const LOCKED_BYTES: u64 = 64 << 10;

/// Limits of each process. Memory and processes are a cgroup's to limit, which counts them for all
/// together.
pub fn rlimits(shape: &Shape) -> Vec<(Rlimit, u64)> {
    vec![
        // Not 0: that still starts the program that a host may have to take core dumps. See
        // `seccomp::KEPT_LIMIT`.
        (Rlimit::Core, 1),
        (Rlimit::FileSize, shape.disk_bytes),
        (Rlimit::MemoryLock, LOCKED_BYTES),
        (Rlimit::MessageQueue, 0),
        (Rlimit::Nice, 0),
        (Rlimit::OpenFiles, OPEN_FILES),
        (Rlimit::PendingSignals, 1024),
        (Rlimit::RealtimePriority, 0),
        (Rlimit::Stack, STACK_BYTES),
    ]
}

/// What may be reached by path, as a second wall behind the mounts.
pub fn landlock() -> LandlockRules {
    LandlockRules {
        read_and_execute: vec!["/".to_owned()],
        // The other devices are to be read: that a write to /dev/zero is refused is how the guest
        // sees that Landlock works. Nothing in /proc can be written, `clear_refs` and the score of
        // the out-of-memory killer included.
        read_and_write: vec!["/dev/null".to_owned()],
        everything: WRITABLE.map(str::to_owned).to_vec(),
    }
}
