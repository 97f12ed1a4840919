//! The result of a run: its outcome and its outputs.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use bytes::Bytes;
use guest::protocol::ConnectAttempt;
use serde::{Deserialize, Serialize};

use crate::isolation::Isolation;

/// The true cause of a run's end. A limit is only named if it was observed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The script ended by itself, with any exit code or signal.
    Exited,
    TimedOut,
    OutOfMemory,
    TooManyProcesses,
    DiskFull,
    OutputTooLarge,
    Cancelled,
    /// Never started, by policy. This crate does not produce it; it completes the list.
    Refused,
    /// The sandbox disappeared for an unknown reason.
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

/// The result of a run, whatever its outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunReport {
    pub outcome: Outcome,
    /// Why the sandbox was removed from outside, as a clause such as "its node was lost", if the
    /// backend knows.
    pub cause: Option<&'static str>,
    /// 128 + signal if a signal killed the script; `None` if it was still running or never started.
    pub exit_code: Option<i32>,
    /// The unchecked bytes of `output.json`.
    pub output: Option<Bytes>,
    pub skipped: Vec<SkippedFile>,
    pub usage: RunUsage,
    pub logs_truncated: bool,
    /// Outbound connection attempts that the guest observed (all of them blocked); `None` where the
    /// guest cannot observe them.
    pub connect_attempts: Option<Vec<ConnectAttempt>>,
    pub isolation: Isolation,
    /// From the first byte of the job to the start of the process.
    pub startup_time: Duration,
}

/// An entry of the output directory that was not collected. Its JSON is stored with executions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedFile {
    pub path: String,
    #[serde(rename = "why")]
    pub reason: String,
}

/// The resources that a run used. Its JSON is stored with executions; fields that an older version
/// did not store are read as 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunUsage {
    /// From the start of the process to its end.
    pub wall_ms: u64,
    pub cpu_ms: u64,
    pub peak_memory_bytes: u64,
    /// Bytes of files and standard input sent.
    pub bytes_in: u64,
    /// Bytes of logs, output and artifacts received.
    pub bytes_out: u64,
}
