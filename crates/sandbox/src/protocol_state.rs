//! The protocol state of one run: which messages a guest may send after its job was sent, in which
//! order and with which sizes.
//!
//! The guest is hostile: every message is checked against the phase and the limits before anything
//! acts on it. This is a pure state machine. It reads no stream, uses no clock and stores only
//! counts, the output document and file paths, all of them bounded by the limits.

use bytes::BytesMut;
use guest::names;
use guest::protocol::{
    ConnectAttempt, ExitReport, ExitStatus, FromGuest, MAX_CONNECT_ATTEMPTS, OutputStream,
    SkipReason,
};

use crate::guest_report::{GuestEvent, GuestReport, ReceivedPaths};
use crate::job::{OutputLimits, StreamMode};
use crate::outcome::SkippedFile;

/// The maximum number of skip reports. Our guest sends at most 100, and a summary for the rest.
const MAX_SKIPPED: usize = 128;

/// The state after the messages received so far.
pub(crate) struct ProtocolState {
    streams: StreamMode,
    output_limits: OutputLimits,
    phase: Phase,
    pending: PendingChunks,
    log_bytes: u64,
    file_bytes: u64,
    files: ReceivedPaths,
    output_seen: bool,
    output: BytesMut,
    report: GuestReport,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Preparing,
    Running,
    Collecting,
    Done,
}

/// The object that the next chunk belongs to, and its number of bytes still to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PendingChunks {
    None,
    Output { remaining: u64 },
    File { remaining: u64 },
}

/// A description of the violated rule.
pub(crate) type ProtocolViolation = &'static str;

impl ProtocolState {
    pub(crate) fn new(streams: StreamMode, output_limits: OutputLimits) -> Self {
        ProtocolState {
            streams,
            output_limits,
            phase: Phase::Preparing,
            pending: PendingChunks::None,
            log_bytes: 0,
            file_bytes: 0,
            files: ReceivedPaths::default(),
            output_seen: false,
            output: BytesMut::new(),
            report: GuestReport::default(),
        }
    }

    /// Checks one message and returns its effect.
    pub(crate) fn receive<'a>(
        &mut self,
        message: FromGuest<'a>,
    ) -> Result<GuestEvent<'a>, ProtocolViolation> {
        match (self.phase, message) {
            (
                Phase::Preparing,
                FromGuest::Failed { errno: libc::ENOSPC | libc::EDQUOT | libc::EFBIG, .. },
            ) => {
                // No script has run, so the guest's report is trustworthy: the job itself exceeds
                // the disk limit.
                self.phase = Phase::Done;
                self.report.job_too_large = true;
                Ok(GuestEvent::JobTooLarge)
            }
            (Phase::Preparing, FromGuest::Failed { step, errno }) => {
                self.phase = Phase::Done;
                Ok(GuestEvent::Failed { step, errno })
            }
            (Phase::Preparing, FromGuest::Started) => {
                self.phase = Phase::Running;
                self.report.started = true;
                Ok(GuestEvent::Started)
            }
            (Phase::Preparing, FromGuest::Exit(exit))
                if matches!(exit.status, ExitStatus::NotStarted(_)) =>
            {
                self.exit(exit)
            }
            (Phase::Running, FromGuest::Log { stream, bytes }) => self.log(stream, bytes),
            (Phase::Running, FromGuest::ConnectAttempted(attempt)) => self.connect_attempt(attempt),
            (Phase::Running, FromGuest::Exit(exit))
                if !matches!(exit.status, ExitStatus::NotStarted(_)) =>
            {
                self.exit(exit)
            }
            (Phase::Collecting, FromGuest::Chunk(bytes)) => self.chunk(bytes),
            // Any other message must wait until the announced bytes have arrived: otherwise a file
            // could be recorded with a part of its content.
            (Phase::Collecting, _) if self.pending != PendingChunks::None => {
                Err("announced more bytes than it sent")
            }
            (Phase::Collecting, FromGuest::Output { size }) => self.output(size),
            (Phase::Collecting, FromGuest::File { path, size }) => self.file(path, size),
            (Phase::Collecting, FromGuest::Skipped { path, reason }) => self.skipped(path, reason),
            (Phase::Collecting, FromGuest::Done) => {
                self.phase = Phase::Done;
                self.report.done = true;
                Ok(GuestEvent::Done)
            }
            _ => Err("message out of order"),
        }
    }

    /// The final report. An incomplete output document counts as missing.
    pub(crate) fn finish(mut self) -> GuestReport {
        if self.output_seen
            && !self.report.output_too_large
            && !matches!(self.pending, PendingChunks::Output { .. })
        {
            self.report.output = Some(self.output.freeze());
        }
        self.report
    }

    fn log<'a>(
        &mut self,
        stream: OutputStream,
        bytes: &'a [u8],
    ) -> Result<GuestEvent<'a>, ProtocolViolation> {
        if (self.streams == StreamMode::Merged) != (stream == OutputStream::Merged) {
            return Err("log of a stream that was not requested");
        }
        if bytes.is_empty() {
            return Err("empty log");
        }
        self.log_bytes += bytes.len() as u64;
        if self.log_bytes > self.output_limits.log_bytes {
            return Err("more log bytes than allowed");
        }
        self.report.bytes_out += bytes.len() as u64;
        Ok(GuestEvent::Log { stream, bytes })
    }

    fn connect_attempt(
        &mut self,
        attempt: ConnectAttempt,
    ) -> Result<GuestEvent<'static>, ProtocolViolation> {
        if self.report.connect_attempts.len() >= MAX_CONNECT_ATTEMPTS {
            return Err("more attempts than allowed");
        }
        self.report.connect_attempts.push(attempt);
        Ok(GuestEvent::Recorded)
    }

    fn exit(&mut self, exit: ExitReport) -> Result<GuestEvent<'static>, ProtocolViolation> {
        let possible = match exit.status {
            ExitStatus::Code(code) => (0..=255).contains(&code),
            ExitStatus::Signal(signal) => (1..=64).contains(&signal),
            ExitStatus::NotStarted(errno) => (1..4096).contains(&errno),
        };
        if !possible {
            return Err("an exit status that no process can have");
        }
        self.phase = Phase::Collecting;
        self.report.exit = Some(exit);
        Ok(GuestEvent::Exited(exit.status))
    }

    fn output(&mut self, size: u64) -> Result<GuestEvent<'static>, ProtocolViolation> {
        if std::mem::replace(&mut self.output_seen, true) {
            return Err("a second output document");
        }
        if size > self.output_limits.output_bytes {
            self.report.output_too_large = true;
        } else if size > 0 {
            self.pending = PendingChunks::Output { remaining: size };
        }
        Ok(GuestEvent::Recorded)
    }

    fn file<'a>(&mut self, path: &'a str, size: u64) -> Result<GuestEvent<'a>, ProtocolViolation> {
        if !names::is_plain_path(path) {
            return Err("a file with a path that is not allowed");
        }
        if self.files.len() as u64 >= u64::from(self.output_limits.artifact_files) {
            return Err("more files than allowed");
        }
        self.file_bytes = self.file_bytes.saturating_add(size);
        if self.file_bytes > self.output_limits.artifact_bytes {
            return Err("more bytes in files than allowed");
        }
        if self.files.clashes(path) {
            return Err("two files with the same path");
        }
        self.files.insert(path);
        if size > 0 {
            self.pending = PendingChunks::File { remaining: size };
        }
        Ok(GuestEvent::File { path, size })
    }

    fn chunk<'a>(&mut self, bytes: &'a [u8]) -> Result<GuestEvent<'a>, ProtocolViolation> {
        let length = bytes.len() as u64;
        if length == 0 {
            return Err("empty chunk");
        }
        let subtract =
            |remaining: u64| remaining.checked_sub(length).ok_or("more bytes than announced");
        let event = match self.pending {
            PendingChunks::None => return Err("a chunk of nothing"),
            PendingChunks::Output { remaining } => {
                let remaining = subtract(remaining)?;
                self.output.extend_from_slice(bytes);
                self.pending = if remaining == 0 {
                    PendingChunks::None
                } else {
                    PendingChunks::Output { remaining }
                };
                GuestEvent::Recorded
            }
            PendingChunks::File { remaining } => {
                let remaining = subtract(remaining)?;
                self.pending = if remaining == 0 {
                    PendingChunks::None
                } else {
                    PendingChunks::File { remaining }
                };
                GuestEvent::Chunk { bytes, last: remaining == 0 }
            }
        };
        self.report.bytes_out += length;
        Ok(event)
    }

    fn skipped(
        &mut self,
        path: &str,
        reason: SkipReason,
    ) -> Result<GuestEvent<'static>, ProtocolViolation> {
        if self.report.skipped.len() >= MAX_SKIPPED {
            return Err("more skipped files than allowed");
        }
        if path.len() > names::MAX_PATH || path.chars().any(char::is_control) {
            return Err("a skipped file with a path that is not allowed");
        }
        self.report
            .skipped
            .push(SkippedFile { path: path.to_owned(), reason: describe(reason).to_owned() });
        Ok(GuestEvent::Recorded)
    }
}

fn describe(reason: SkipReason) -> &'static str {
    match reason {
        SkipReason::SymbolicLink => "symbolic link",
        SkipReason::HardLink => "hard link",
        SkipReason::Special => "not a regular file",
        SkipReason::TooLarge => "too large",
        SkipReason::TooMany => "too many files",
        SkipReason::TooDeep => "too deep",
        SkipReason::Name => "name not allowed",
        SkipReason::Unreadable => "not readable",
    }
}

#[cfg(test)]
#[path = "protocol_state_tests.rs"]
mod tests;
