//! How a run ended: the true cause, and what it left.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use bytes::Bytes;
use guest::protocol::Attempt;
use serde::{Deserialize, Serialize};

use crate::isolation::Isolation;

/// The true cause of a run's end. A limit that ended the run is named, never guessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The script ended by itself, with whatever code or signal.
    Exited,
    TimedOut,
    OutOfMemory,
    TooManyProcesses,
    DiskFull,
    OutputTooLarge,
    Cancelled,
    /// Never started, by policy. Not made by this crate; it completes the list.
    Refused,
    /// The sandbox went away and nothing says why.
    Lost,
}

impl Outcome {
    pub const ALL: [Outcome; 9] = [
        Outcome::Exited,
        Outcome::TimedOut,
        Outcome::OutOfMemory,
        Outcome::TooManyProcesses,
        Outcome::DiskFull,
        Outcome::OutputTooLarge,
        Outcome::Cancelled,
        Outcome::Refused,
        Outcome::Lost,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Outcome::Exited => "exited",
            Outcome::TimedOut => "timed_out",
            Outcome::OutOfMemory => "out_of_memory",
            Outcome::TooManyProcesses => "too_many_processes",
            Outcome::DiskFull => "disk_full",
            Outcome::OutputTooLarge => "output_too_large",
            Outcome::Cancelled => "cancelled",
            Outcome::Refused => "refused",
            Outcome::Lost => "lost",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Outcome {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Outcome::ALL
            .into_iter()
            .find(|outcome| outcome.as_str() == name)
            .ok_or_else(|| format!("unknown outcome {name:?}"))
    }
}

/// A run that came to its end, whichever end that was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    pub outcome: Outcome,
    /// What took the sandbox away, in a clause such as "its node was lost", where its backend
    /// knows.
    pub because: Option<&'static str>,
    /// 128 + signal when the script was killed by one; none when it was still running or never
    /// started.
    pub exit_code: Option<i32>,
    /// The bytes of `output.json`, whatever they are.
    pub output: Option<Bytes>,
    pub skipped: Vec<Skipped>,
    pub usage: Usage,
    pub logs_truncated: bool,
    /// The script's calls for other machines, as its guest saw them; none where nobody looked.
    pub attempts: Option<Vec<Attempt>>,
    pub isolation: Isolation,
    /// From the first byte of the job to the start of the process.
    pub started_after: Duration,
}

/// Something in the output directory that was not collected, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    pub path: String,
    pub why: String,
}

/// What a run cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// From the start of the process to its end.
    pub wall_ms: u64,
    pub cpu_ms: u64,
    pub peak_memory_bytes: u64,
    /// Bytes of files and standard input sent.
    pub bytes_in: u64,
    /// Bytes of logs, output and artifacts received.
    pub bytes_out: u64,
}
