//! The plan of native sandboxes, made by the host as a plain value and carried out by a launcher's
//! children.
//!
//! All policy is in the plan and in the limits of each sandbox. A child only follows them, so what
//! a sandbox looks like can be read, and snapshot-tested, in one place on the host.

use std::ffi::CStr;

use serde::{Deserialize, Serialize};

/// The descriptor on which a guest has its stream. A launcher has its host on standard input.
pub const CHANNEL_FD: i32 = 3;

/// The descriptor on which a guest finds what its script's calls are heard on, if the kernel gave
/// one. It is far above those that a child on its way has open.
pub const WITNESS_FD: i32 = 100;

/// The descriptor on which a guest finds the kernel's list of the record locks in its sandbox,
/// which is hidden from scripts.
pub const LOCKS_FD: i32 = 101;

/// The descriptor on which a guest finds its own `oom_score_adj`: nothing in `/proc` can be opened
/// for writing inside.
pub const OOM_SCORE_FD: i32 = 102;

/// The argument that tells a guest that its sandbox shares no inode with others on which its
/// scripts could take a lock.
pub const PRIVATE_INODES: &CStr = c"private-inodes";

/// The user and group inside a sandbox.
pub const INSIDE_ID: u32 = 1000;

/// Each run as root gets a host uid above this, made of the pid of its first process: unique among
/// everything alive, far above what distributions and subordinate ranges hand out.
pub const UID_BASE: u32 = 0x7000_0000;

/// The largest message between host and launcher; both sides use buffers of this size.
pub const MAX_MESSAGE: usize = 128 * 1024;

/// What the host tells a launcher, one message a packet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToLauncher {
    /// First message: where cgroups go, how many children to keep ready, which network all of them
    /// are to see, and what all of them are to become.
    Start { cgroups: Cgroups, spares: u32, network: SandboxNetwork, plan: Box<SandboxPlan> },
    /// Turn a spare child into a sandbox; the guest's end of the stream comes with it as a
    /// descriptor.
    Launch { id: u64, limits: SandboxLimits },
}

/// What a launcher answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromLauncher {
    /// The sandbox's first process, whose pidfd comes along.
    Launched { id: u64, pid: i32, enforced: EnforcedLimits },
    /// No child could be made.
    Failed { id: u64, step: String, errno: i32 },
    /// The sandbox is gone: all its processes were reaped and its cgroups removed.
    Gone { id: u64, counters: Counters },
}

/// The network that sandboxes see.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SandboxNetwork {
    /// One of their own with nothing in it but loopback.
    #[default]
    Own,
    /// The host's, whole.
    Host,
}

/// The control groups below which every sandbox gets one of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cgroups {
    /// None can be written here; only rlimits hold.
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

/// What one sandbox may use: all that differs between the sandboxes of a launcher.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxLimits {
    pub cgroup: CgroupLimits,
    pub scratch: ScratchLimits,
    pub rlimits: Vec<(Rlimit, u64)>,
}

/// What the cgroup enforces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupLimits {
    pub memory_bytes: u64,
    /// Thousandths of a core.
    pub cpu_millis: u32,
    pub pids: u32,
}

/// Which limits the kernel took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnforcedLimits {
    pub memory: bool,
    pub swap: bool,
    pub cpu: bool,
    pub pids: bool,
    pub unique_uid: bool,
}

/// What the kernel counted for one sandbox.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    pub cpu_micros: u64,
    /// Of the cgroup, else of the largest process.
    pub peak_memory_bytes: u64,
    pub oom_kills: u64,
    /// How often a fork was refused by the process limit.
    pub forks_refused: u64,
}

/// What every sandbox of a launcher looks like. It does not depend on the run, so children carry
/// out most of it before they are asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxPlan {
    pub hostname: String,
    /// The new root, made in this order.
    pub root: Vec<RootEntry>,
    pub landlock: LandlockRules,
    /// A classic BPF program, eight bytes an instruction, as `seccomp(2)` takes it.
    pub seccomp: Vec<u8>,
    /// One more, that makes calls wait until the guest has looked at them.
    pub witness: Vec<u8>,
    /// Refuses record locks. Installed only where the guest cannot count them.
    pub no_locks: Vec<u8>,
    /// Trees of the host are seen through overlays, and inodes that cannot be are locked for good.
    pub own_inodes: bool,
    /// `PATH` of the guest and so of every script.
    pub path: String,
}

/// One thing in the new root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RootEntry {
    Directory {
        path: String,
    },
    /// A small read-only file of ours.
    File {
        path: String,
        contents: String,
    },
    Symlink {
        path: String,
        target: String,
    },
    /// A host file or tree at the same or another path: read-only, nosuid, nodev. A file is copied,
    /// and a tree is seen through an overlay where the kernel allows it, so that no inode is shared
    /// with another sandbox.
    Bind {
        source: String,
        target: String,
    },
    /// A host device node, of which nothing can be changed but what is written to the device.
    Device {
        path: String,
    },
    /// A directory of the scratch file system: writable, nosuid, nodev.
    Scratch {
        path: String,
    },
    /// A new proc of the sandbox's own pid namespace, with these paths in it covered.
    Proc {
        masked: Vec<String>,
    },
}

/// One tmpfs for all that a script may write, so that one cap holds for all of it.
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

/// Paths and what may be done below them; all else is refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LandlockRules {
    pub read_and_execute: Vec<String>,
    /// Read, and write to existing files, without creating: devices.
    pub read_and_write: Vec<String>,
    pub everything: Vec<String>,
}
