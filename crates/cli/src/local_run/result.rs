//! The result of a run without a server, and its exit code.

use runner::StandaloneResult;
use sandbox::Outcome;

use super::live_output::{CapturedStreams, SavedFile};

/// Facts about a run, filled in as they become known. A record can then be written even of a run
/// that never started.
#[derive(Debug, Default)]
pub(crate) struct RunMetadata {
    pub skill: Option<String>,
    pub version: Option<String>,
    pub digest: Option<String>,
    pub script: Option<String>,
    pub network_allowed: bool,
    pub trusted: bool,
    pub sandbox: Option<&'static str>,
    pub memory_limit_bytes: Option<u64>,
    pub timeout_ms: Option<u64>,
    pub clamped: Vec<String>,
}

/// A run that has finished.
pub(crate) struct FinishedRun {
    pub result: StandaloneResult,
    pub files: Vec<SavedFile>,
    pub captured: Option<CapturedStreams>,
    /// The reader of our standard output closed it.
    pub stdout_closed: bool,
}

impl FinishedRun {
    /// The script's own exit code, so that shells can act on it. A run that Skillbox lost or
    /// refused counts as a failed call.
    pub(crate) fn exit_code(&self) -> u8 {
        let result = &self.result;
        let script_code =
            result.exit_code.and_then(|code| u8::try_from(code).ok()).filter(|code| *code != 0);
        match result.outcome {
            Outcome::Exited if script_code.is_none() && result.error.is_none() => 0,
            Outcome::TimedOut => 124,
            Outcome::Cancelled => 130,
            Outcome::Refused | Outcome::Lost => 2,
            // An `Exited` script with code 0 comes here when its output was not valid.
            Outcome::Exited
            | Outcome::OutOfMemory
            | Outcome::TooManyProcesses
            | Outcome::DiskFull
            | Outcome::OutputTooLarge => script_code.unwrap_or(1),
        }
    }
}
