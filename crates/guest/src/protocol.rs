//! The protocol between the host and a guest: messages in the order in which they are sent.
//!
//! ```text
//! host                                    guest
//! Confine (in a container only)       ──►
//!                                     ◄── Ready (or Failed, then the guest exits)
//! File, Chunk… / Link / Stdin, Chunk… ──►
//! Run                                 ──►
//!                                     ◄── Started
//!                                     ◄── Log… / ConnectAttempted…
//! Stop (any time after Run)           ──►
//!                                     ◄── Exit, when every process is dead
//!                                     ◄── Output, Chunk… / File, Chunk… / Skipped…
//!                                     ◄── Done
//! ```

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::jail::{Counters, LandlockRules, Rlimit, ScratchLimits};

/// Messages from the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToGuest<'a> {
    /// A file to write; `Chunk`s of `size` bytes in total follow. Missing parent directories are
    /// created.
    File { path: &'a str, size: u64, executable: bool },
    /// The next bytes of the file or standard input announced last.
    Chunk(&'a [u8]),
    /// A symbolic link to make.
    Link { path: &'a str, target: &'a str },
    /// Standard input; `Chunk`s of `size` bytes follow. Without it the script reads end of file.
    Stdin { size: u64 },
    /// Start the script; only `Stop` may follow.
    Run(#[serde(borrow)] RunRequest<'a>),
    /// Kill all processes and continue with collecting.
    Stop,
    /// The first message to a guest in a container, which our launcher did not confine.
    Confine(Confinement),
}

/// The confinement that a guest in a container applies to itself and its descendants, in addition
/// to the container's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// Per process, as far as the kernel supports them: not every container backend can set them.
    pub rlimits: Vec<(Rlimit, u64)>,
    pub landlock: LandlockRules,
    /// A classic BPF program, as `seccomp(2)` takes it.
    pub seccomp: Vec<u8>,
    /// A filter that suspends certain calls until the guest has inspected them.
    pub notify_filter: Vec<u8>,
    /// A filter that rejects record locks. Installed only where the guest cannot count them.
    pub no_lock_filter: Vec<u8>,
    /// Lock all inodes that other containers share, so that scripts cannot signal through them.
    pub private_inodes: bool,
    /// The limit on the sum of all writable directories, where each is a file system of its own.
    pub scratch: ScratchLimits,
    /// The limit on processes and threads, for where no cgroup enforces it.
    pub processes: u32,
}

/// The process to run and the limits on the data sent back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRequest<'a> {
    /// `argv[0]` without a slash is looked up in the guest's own `PATH`.
    #[serde(borrow)]
    pub argv: Vec<&'a str>,
    /// The whole environment but `PATH`, which is the guest's own.
    pub env: Vec<(&'a str, &'a str)>,
    pub cwd: &'a str,
    /// Two pipes, which keep stdout and stderr separate; otherwise one, which keeps their exact
    /// order.
    pub split_streams: bool,
    /// Log bytes beyond this are read and dropped.
    pub log_bytes: u64,
    /// A larger `output.json` is not sent.
    pub output_bytes: u64,
    /// The sum of the sizes of all files sent.
    pub artifact_bytes: u64,
    pub artifact_files: u32,
}

/// Messages from a guest. None of them is trusted once a job was sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromGuest<'a> {
    /// The sandbox is ready; the measurements say which controls are in force.
    #[serde(borrow)]
    Ready(Measurements<'a>),
    /// A setup step failed; the guest exits.
    Failed { step: &'a str, errno: i32 },
    /// The script's process is running.
    Started,
    /// Bytes the script wrote.
    Log { stream: OutputStream, bytes: &'a [u8] },
    /// The script tried to connect beyond loopback. Each destination is reported once.
    ConnectAttempted(ConnectAttempt),
    /// The script and every other process ended.
    Exit(ExitReport),
    /// `output.json` has this size; `Chunk`s follow, unless it is larger than allowed.
    Output { size: u64 },
    /// A regular file below the files directory; `Chunk`s of `size` bytes in total follow.
    File { path: &'a str, size: u64 },
    /// The next bytes of the output or file announced last.
    Chunk(&'a [u8]),
    /// An entry of the output directory that is not sent.
    Skipped { path: &'a str, reason: SkipReason },
    /// Nothing follows.
    Done,
}

/// The output stream that log bytes came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum OutputStream {
    Stdout,
    Stderr,
    /// Both, through one pipe.
    Merged,
}

/// An attempt to reach another machine, as the call was made. Whether it succeeded is decided by
/// the kernel and not recorded here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectAttempt {
    pub call: ConnectCall,
    pub to: SocketAddr,
}

/// The observed system calls. `sendmsg` is not one of them: a filter cannot see whether it has an
/// address, so every message between processes would have to be suspended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ConnectCall {
    Connect,
    SendTo,
}

/// The maximum number of connect attempts reported per run.
pub const MAX_CONNECT_ATTEMPTS: usize = 64;

/// How the script ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitReport {
    pub status: ExitStatus,
    /// The scratch file system had no free block or no free inode at some point.
    pub disk_full: bool,
    /// Log bytes dropped because of the limit.
    pub log_bytes_dropped: u64,
    /// Counters of the guest's own cgroup, where it can see one. The guest could forge them, but
    /// only to change the outcome of its own failure.
    pub counters: Option<Counters>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExitStatus {
    Code(i32),
    Signal(i32),
    /// The program could not be started, with the error number of `execve`.
    NotStarted(i32),
}

/// Why an entry of the output directory was not collected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SkipReason {
    SymbolicLink,
    HardLink,
    Special,
    TooLarge,
    TooMany,
    TooDeep,
    Name,
    Unreadable,
}

/// The guest's measurements of its own confinement, taken before any job arrives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measurements<'a> {
    pub uid: u32,
    pub gid: u32,
    /// The union of the five capability sets.
    pub capabilities: u64,
    pub no_new_privileges: bool,
    /// The mode in `/proc/self/status`; 2 means a filter.
    pub seccomp: u8,
    /// The Landlock ABI, if a write that only Landlock forbids was indeed denied.
    pub landlock: Option<u8>,
    /// Name and inode of each namespace.
    #[serde(borrow)]
    pub namespaces: Vec<(&'a str, u64)>,
    pub root_read_only: bool,
    /// Size and inode limit of the scratch file system, 0 if it has none.
    pub scratch_bytes: u64,
    pub scratch_inodes: u64,
    /// The limits of the guest's cgroup, where it can see one.
    pub cgroup: Option<MeasuredCgroup>,
    /// The kernel is gVisor's rather than the host's.
    pub gvisor: bool,
    /// Connect attempts are observed.
    pub observes_connects: bool,
    /// There is a route that does not end at loopback.
    pub routes: bool,
    /// An internet socket can be created.
    pub sockets: bool,
    /// No lockable inode is shared with another sandbox.
    pub private_inodes: bool,
}

/// The limits of a cgroup, as its own processes read them; `None` where there is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeasuredCgroup {
    /// The cgroup version: 1 or 2.
    pub version: u8,
    pub memory_bytes: Option<u64>,
    pub no_swap: bool,
    pub pids: Option<u64>,
    /// Thousandths of a core.
    pub cpu_millis: Option<u64>,
}

/// The paths of the in-sandbox contract.
pub mod paths {
    pub const SANDBOX: &str = "/sandbox";
    /// The skill's tree.
    pub const SCRIPTS: &str = "/sandbox/scripts";
    pub const INPUT_JSON: &str = "/sandbox/input.json";
    pub const INPUT_DIR: &str = "/sandbox/input";
    pub const OUT_DIR: &str = "/sandbox/out";
    pub const OUTPUT_JSON: &str = "/sandbox/out/output.json";
    pub const FILES_DIR: &str = "/sandbox/out/files";
    pub const SKILLS: &str = "/skills";
    pub const WORKSPACE: &str = "/workspace";
    pub const TMP: &str = "/tmp";
}
