//! The conversation between the host and a guest, in the order it happens.
//!
//! ```text
//! host                                    guest
//! Confine (in a container only)       ──►
//!                                     ◄── Ready (or Failed, and the end)
//! File, Chunk… / Link / Stdin, Chunk… ──►
//! Run                                 ──►
//!                                     ◄── Started
//!                                     ◄── Log… / Tried…
//! Stop (any time after Run)           ──►
//!                                     ◄── Exit, when every process is dead
//!                                     ◄── Output, Chunk… / File, Chunk… / Skipped…
//!                                     ◄── Done
//! ```

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::jail::{Counters, LandlockRules, Rlimit, ScratchLimits};

/// What the host says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToGuest<'a> {
    /// A file to write; `Chunk`s of `size` bytes in all follow. Missing parent directories are
    /// made.
    File { path: &'a str, size: u64, executable: bool },
    /// The next bytes of the file or standard input announced last.
    Chunk(&'a [u8]),
    /// A symbolic link to make.
    Link { path: &'a str, target: &'a str },
    /// Standard input; `Chunk`s of `size` bytes follow. Without it the script reads end of file.
    Stdin { size: u64 },
    /// Run this now; nothing but `Stop` may follow.
    Run(#[serde(borrow)] RunRequest<'a>),
    /// Kill everything and go on to collecting.
    Stop,
    /// The first message to a guest that was not confined by a launcher of ours.
    Confine(Confinement),
}

/// The walls that a guest puts around itself and everything it starts, inside of those that were
/// there already.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// For each process, as far as the kernel knows them: not whoever makes a container can say
    /// them.
    pub rlimits: Vec<(Rlimit, u64)>,
    pub landlock: LandlockRules,
    /// A classic BPF program, as `seccomp(2)` takes it.
    pub seccomp: Vec<u8>,
    /// The program that makes calls wait until the guest has looked at them.
    pub witness: Vec<u8>,
    /// Refuses record locks. Installed only where the guest cannot count them.
    pub no_locks: Vec<u8>,
    /// Inodes that other containers share are locked for good.
    pub own_inodes: bool,
    /// The cap on all writable places together, where each is a file system of its own.
    pub scratch: ScratchLimits,
    /// The cap on processes and threads, for where no control group holds it.
    pub processes: u32,
}

/// The process to run and the bounds on what is sent back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRequest<'a> {
    /// `argv[0]` without a slash is looked up in the guest's own `PATH`.
    #[serde(borrow)]
    pub argv: Vec<&'a str>,
    /// The whole environment but `PATH`, which is the guest's own.
    pub env: Vec<(&'a str, &'a str)>,
    pub cwd: &'a str,
    /// Two pipes, so that stdout and stderr can be told apart; otherwise one, so that their order
    /// is exact.
    pub split_streams: bool,
    /// Log bytes beyond this are read and dropped.
    pub log_bytes: u64,
    /// A larger `output.json` is not sent.
    pub output_bytes: u64,
    /// The sum of the sizes of all files sent.
    pub artifact_bytes: u64,
    pub artifact_files: u32,
}

/// What a guest says. Nothing in here is trusted once a job was sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromGuest<'a> {
    /// The sandbox stands; this is what holds in it.
    #[serde(borrow)]
    Ready(Measurements<'a>),
    /// A step of setting up failed; the sandbox is gone.
    Failed { step: &'a str, errno: i32 },
    /// The script's process runs.
    Started,
    /// Bytes the script wrote.
    Log { stream: OutputStream, bytes: &'a [u8] },
    /// The script reached for something beyond its loopback; each is told once.
    Tried(ConnectAttempt),
    /// The script ended, and so did every other process.
    Exit(ExitReport),
    /// `output.json` has this size; `Chunk`s follow, unless it is larger than allowed.
    Output { size: u64 },
    /// A regular file below the files directory; `Chunk`s of `size` bytes in all follow.
    File { path: &'a str, size: u64 },
    /// The next bytes of the output or file announced last.
    Chunk(&'a [u8]),
    /// Something in the output directory that is not sent.
    Skipped { path: &'a str, why: SkipReason },
    /// Nothing follows.
    Done,
}

/// Where log bytes came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum OutputStream {
    Stdout,
    Stderr,
    /// Both, through one pipe.
    Merged,
}

/// A call for another machine, as it was made. Whether anything came of it is the kernel's to say,
/// not the witness's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectAttempt {
    pub call: ConnectCall,
    pub to: SocketAddr,
}

/// The calls that are looked at. `sendmsg` is not one of them: its address lies where no filter can
/// see whether there is one, and every message between processes would have to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ConnectCall {
    Connect,
    SendTo,
}

/// The number of attempts that are told of one run.
pub const MAX_CONNECT_ATTEMPTS: usize = 64;

/// How the script ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitReport {
    pub status: ExitStatus,
    /// The scratch file system was seen with no free block or no free inode.
    pub disk_full: bool,
    /// Log bytes dropped because of the cap.
    pub log_bytes_dropped: u64,
    /// What the guest's own control group counted, where it can see one. It is the guest's word:
    /// whoever could forge it could at most give its own failure another name.
    pub counted: Option<Counters>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExitStatus {
    Code(i32),
    Signal(i32),
    /// The program could not be started, with the error number of `execve`.
    NotStarted(i32),
}

/// Why something in the output directory was left behind.
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

/// What the guest sees of its own confinement before any job arrives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measurements<'a> {
    pub uid: u32,
    pub gid: u32,
    /// Every capability found in any of the five sets.
    pub capabilities: u64,
    pub no_new_privileges: bool,
    /// The mode in `/proc/self/status`; 2 is a filter.
    pub seccomp: u8,
    /// The Landlock ABI, when a write that only Landlock forbids was indeed refused.
    pub landlock: Option<u8>,
    /// Name and inode of each namespace.
    #[serde(borrow)]
    pub namespaces: Vec<(&'a str, u64)>,
    pub root_read_only: bool,
    /// Size and inode cap of the scratch file system, 0 when it has none.
    pub scratch_bytes: u64,
    pub scratch_inodes: u64,
    /// The limits of its control group, where it can see one.
    pub cgroup: Option<MeasuredCgroup>,
    /// The kernel is gVisor's, which stands between the script and the machine's.
    pub gvisor: bool,
    /// Calls for other machines are seen.
    pub witness: bool,
    /// There is a way to other machines: a route that does not end at loopback.
    pub routes: bool,
    /// A socket for the internet can be made.
    pub sockets: bool,
    /// No inode on which a script could take a lock is shared with another sandbox.
    pub private_inodes: bool,
}

/// The limits of a control group, as its own processes read them; none where there is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeasuredCgroup {
    /// Of the hierarchy: 1 or 2.
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
