//! The report of a guest: what it sent over a whole run, and the effect of each message.

use std::collections::BTreeSet;

use bytes::Bytes;
use guest::protocol::{ConnectAttempt, ExitReport, ExitStatus, OutputStream};

use crate::outcome::SkippedFile;

/// Everything a guest reported, whether or not it came to the end of the protocol.
#[derive(Debug, Default)]
pub(crate) struct GuestReport {
    pub started: bool,
    /// The job does not fit into the sandbox's file system.
    pub job_too_large: bool,
    pub exit: Option<ExitReport>,
    /// The guest finished collecting.
    pub done: bool,
    pub output: Option<Bytes>,
    pub output_too_large: bool,
    pub skipped: Vec<SkippedFile>,
    pub connect_attempts: Vec<ConnectAttempt>,
    /// Bytes of logs, output and files.
    pub bytes_out: u64,
}

/// The effect of a message, for the supervisor to act on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum GuestEvent<'a> {
    /// Stored in the report; there is nothing else to do.
    Recorded,
    Started,
    Log {
        stream: OutputStream,
        bytes: &'a [u8],
    },
    /// Every process is dead; collecting begins.
    Exited(ExitStatus),
    /// A file begins; an empty file is already complete.
    File {
        path: &'a str,
        size: u64,
    },
    /// The next bytes of the file.
    Chunk {
        bytes: &'a [u8],
        last: bool,
    },
    /// The job does not fit into the sandbox's file system.
    JobTooLarge,
    /// The job's files could not be written.
    Failed {
        step: &'a str,
        errno: i32,
    },
    Done,
}

/// The paths of the files received so far.
#[derive(Default)]
pub(crate) struct ReceivedPaths(BTreeSet<String>);

impl ReceivedPaths {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn insert(&mut self, path: &str) {
        self.0.insert(path.to_owned());
    }

    /// Whether this path equals a received path, or one of the two is a directory of the other. A
    /// client that extracts the files must not overwrite one with another.
    pub(crate) fn clashes(&self, path: &str) -> bool {
        let parent_is_file = path.match_indices('/').any(|(end, _)| self.0.contains(&path[..end]));
        let below = format!("{path}/");
        let is_parent =
            self.0.range(below.clone()..).next().is_some_and(|next| next.starts_with(&below));
        parent_is_file || is_parent || self.0.contains(path)
    }
}
