//! The conversation between the host and a guest, in the order it happens.
//!
//! ```text
//! host                                    guest
//!                                     ◄── Ready (or Failed, and the end)
//! File, Chunk… / Link / Stdin, Chunk… ──►
//! Run                                 ──►
//!                                     ◄── Started
//!                                     ◄── Log…
//! Stop (any time after Run)           ──►
//!                                     ◄── Exit, when every process is dead
//!                                     ◄── Output, Chunk… / File, Chunk… / Skipped…
//!                                     ◄── Done
//! ```

use serde::{Deserialize, Serialize};

/// What the host says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToGuest<'a> {
    /// A file to write; `Chunk`s of `size` bytes in all follow. Missing parent directories are made.
    File { path: &'a str, size: u64, executable: bool },
    /// The next bytes of the file or standard input announced last.
    Chunk(&'a [u8]),
    /// A symbolic link to make.
    Link { path: &'a str, target: &'a str },
    /// Standard input; `Chunk`s of `size` bytes follow. Without it the script reads end of file.
    Stdin { size: u64 },
    /// Run this now; nothing but `Stop` may follow.
    Run(#[serde(borrow)] Run<'a>),
    /// Kill everything and go on to collecting.
    Stop,
}

/// The process to run and the bounds on what is sent back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run<'a> {
    /// `argv[0]` without a slash is looked up in the guest's own `PATH`.
    #[serde(borrow)]
    pub argv: Vec<&'a str>,
    /// The whole environment but `PATH`, which is the guest's own.
    pub env: Vec<(&'a str, &'a str)>,
    pub cwd: &'a str,
    /// Two pipes, so that stdout and stderr can be told apart; otherwise one, so that their order is exact.
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
    Ready(Measured<'a>),
    /// A step of setting up failed; the sandbox is gone.
    Failed { step: &'a str, errno: i32 },
    /// The script's process runs.
    Started,
    /// Bytes the script wrote.
    Log { stream: Stream, bytes: &'a [u8] },
    /// The script ended, and so did every other process.
    Exit(Exit),
    /// `output.json` has this size; `Chunk`s follow, unless it is larger than allowed.
    Output { size: u64 },
    /// A regular file below the files directory; `Chunk`s of `size` bytes in all follow.
    File { path: &'a str, size: u64 },
    /// The next bytes of the output or file announced last.
    Chunk(&'a [u8]),
    /// Something in the output directory that is not sent.
    Skipped { path: &'a str, why: Skip },
    /// Nothing follows.
    Done,
}

/// Where log bytes came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stream {
    Stdout,
    Stderr,
    /// Both, through one pipe.
    Merged,
}

/// How the script ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    pub status: ExitStatus,
    /// The scratch file system was seen with no free block or no free inode.
    pub disk_full: bool,
    /// Log bytes dropped because of the cap.
    pub log_bytes_dropped: u64,
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
pub enum Skip {
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
pub struct Measured<'a> {
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
