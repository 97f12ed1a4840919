//! The plan of native sandboxes: a plain value that the host computes and the children of a
//! launcher execute.
//!
//! All policy is in the plan and in the limits of each sandbox. A child only executes them, so the
//! layout of a sandbox can be read, and snapshot-tested, in one place on the host.

use std::ffi::CStr;

use serde::{Deserialize, Serialize};

/// The descriptor of a guest's stream to the host. A launcher has its own socket on standard input.
pub const CHANNEL_FD: i32 = 3;

/// The descriptor of a guest's seccomp notification listener, if the kernel provided one. The
/// number is far above the descriptors that a child has open while it sets up the sandbox.
pub const NOTIFY_FD: i32 = 100;

/// The descriptor of the kernel's list of record locks (`/proc/locks`), which is masked in the
/// sandbox.
pub const LOCKS_FD: i32 = 101;

/// The descriptor of the guest's own `oom_score_adj`: Landlock forbids opening anything in `/proc`
/// for writing inside the sandbox.
pub const OOM_SCORE_FD: i32 = 102;

/// The argument that informs a guest that its sandbox shares no lockable inode with other
/// sandboxes.
pub const PRIVATE_INODES: &CStr = c"private-inodes";

/// The user and group inside a sandbox.
pub const INSIDE_ID: u32 = 1000;

/// When the launcher runs as root, each sandbox gets a host uid above this, derived from the pid of
/// its first process: unique among live processes, and far above the ids that distributions and
/// subordinate id ranges assign.
pub const UID_BASE: u32 = 0x7000_0000;

/// The largest message between host and launcher; both sides use buffers of this size.
pub const MAX_MESSAGE: usize = 128 * 1024;

/// Messages from the host to a launcher, one per packet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToLauncher {
    /// The first message: the parent cgroups, the number of spare children, the network of the
    /// sandboxes and the plan that all of them share.
    Start { cgroups: Cgroups, spares: u32, network: SandboxNetwork, plan: Box<SandboxPlan> },
    /// Turn a spare child into a sandbox. The guest's end of the stream is passed as a descriptor.
    Launch { id: u64, limits: SandboxLimits },
}

/// Messages from a launcher to the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromLauncher {
    /// The sandbox was started; the pidfd of its first process is passed as a descriptor.
    Launched { id: u64, pid: i32, enforced: EnforcedLimits },
    /// No sandbox could be started.
    Failed { id: u64, step: String, errno: i32 },
    /// The sandbox ended: all its processes were reaped and its cgroups removed.
    Ended { id: u64, counters: Counters },
}

/// The network of sandboxes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SandboxNetwork {
    /// A private network namespace that contains only loopback.
    #[default]
    Own,
    /// The host's network namespace.
    Host,
}

/// The parent cgroups below which every sandbox gets its own cgroup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cgroups {
    /// No cgroup is writable; only rlimits are enforced.
    None,
    /// The directory in the unified hierarchy, with the controllers enabled below it.
    V2 { directory: String, controllers: Vec<CgroupController> },
    /// One directory for each controller that can be written.
    V1 { directories: Vec<(CgroupController, String)> },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum CgroupController {
    Memory,
    Pids,
    Cpu,
}

/// The limits of one sandbox: the only difference between the sandboxes of a launcher.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxLimits {
    pub cgroup: CgroupLimits,
    pub scratch: ScratchLimits,
    pub rlimits: Vec<(Rlimit, u64)>,
}

/// The limits that the cgroup enforces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupLimits {
    pub memory_bytes: u64,
    /// Thousandths of a core.
    pub cpu_millis: u32,
    pub pids: u32,
}

/// The limits that the kernel accepted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnforcedLimits {
    pub memory: bool,
    pub swap: bool,
    pub cpu: bool,
    pub pids: bool,
    pub unique_uid: bool,
}

/// The kernel's resource counters of one sandbox.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    pub cpu_micros: u64,
    /// Peak of the cgroup; without a cgroup, of the largest process.
    pub peak_memory_bytes: u64,
    pub oom_kills: u64,
    /// How often the process limit rejected a fork.
    pub forks_refused: u64,
}

/// The layout and filters that all sandboxes of a launcher share. It does not depend on the run, so
/// spare children execute most of it ahead of time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxPlan {
    pub hostname: String,
    /// The entries of the new root, created in this order.
    pub root: Vec<RootEntry>,
    pub landlock: LandlockRules,
    /// A classic BPF program, eight bytes an instruction, as `seccomp(2)` takes it.
    pub seccomp: Vec<u8>,
    /// A filter that suspends certain calls until the guest has inspected them (seccomp user
    /// notification).
    pub notify_filter: Vec<u8>,
    /// A filter that rejects record locks. Installed only where the guest cannot count them.
    pub no_lock_filter: Vec<u8>,
    /// Host trees are mounted through overlays, and inodes that cannot be are locked by the guest,
    /// so that scripts of two sandboxes cannot signal to each other through locks.
    pub private_inodes: bool,
    /// `PATH` of the guest and so of every script.
    pub path: String,
}

/// One entry of the new root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RootEntry {
    Directory {
        path: String,
    },
    /// A small read-only file with our own contents.
    File {
        path: String,
        contents: String,
    },
    Symlink {
        path: String,
        target: String,
    },
    /// A host file or tree at the same or another path: read-only, nosuid, nodev. A file is copied,
    /// and a tree is mounted through an overlay where the kernel allows it, so that no inode is
    /// shared with another sandbox.
    Bind {
        source: String,
        target: String,
    },
    /// A host device node on a read-only mount: the device is writable, its metadata is not.
    Device {
        path: String,
    },
    /// A directory of the scratch file system: writable, nosuid, nodev.
    Scratch {
        path: String,
    },
    /// A new procfs of the sandbox's pid namespace, with these paths masked.
    Proc {
        masked: Vec<String>,
    },
}

/// The size of the scratch tmpfs. All writable directories are on one tmpfs, so that one limit
/// applies to their sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScratchLimits {
    pub bytes: u64,
    pub inodes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Rlimit {
    Core,
    Data,
    FileSize,
    MemoryLock,
    MessageQueue,
    Nice,
    OpenFiles,
    PendingSignals,
    Processes,
    RealtimePriority,
    Stack,
}

/// The access rights below paths; everything else is denied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LandlockRules {
    pub read_and_execute: Vec<String>,
    /// Read and write existing files without creating any: for devices.
    pub read_and_write: Vec<String>,
    pub everything: Vec<String>,
}
