//! What a guest may say after its job was sent, in which order and how much of it.
//!
//! The guest is hostile: every message is checked against the state and the caps before anything
//! acts on it. This is a pure state machine; it reads no stream, keeps no time and stores nothing
//! but counts, the output document and the names already seen, all of them bounded by the caps.

use std::collections::BTreeSet;

use bytes::{Bytes, BytesMut};
use guest::names;
use guest::protocol::{
    ConnectAttempt, ExitReport, ExitStatus, FromGuest, MAX_CONNECT_ATTEMPTS, OutputStream,
    SkipReason,
};

use crate::job::{OutputLimits, StreamMode};
use crate::outcome::SkippedFile;

/// A guest reports at most 100 things one by one, and one line for the rest.
const MAX_SKIPPED: usize = 128;

/// Everything a guest has said so far.
pub struct Conversation {
    streams: StreamMode,
    output_limits: OutputLimits,
    state: State,
    body: Body,
    log_bytes: u64,
    file_bytes: u64,
    files: BTreeSet<String>,
    output_seen: bool,
    output: BytesMut,
    heard: Heard,
}

/// What remains of a conversation when it is over, whole or broken off.
#[derive(Debug, Default)]
pub struct Heard {
    pub started: bool,
    /// The job does not fit into the sandbox's file system.
    pub no_room: bool,
    pub exit: Option<ExitReport>,
    /// The guest came to the end of collecting.
    pub done: bool,
    pub output: Option<Bytes>,
    pub output_too_large: bool,
    pub skipped: Vec<SkippedFile>,
    pub connect_attempts: Vec<ConnectAttempt>,
    /// Bytes of logs, output and files.
    pub bytes_out: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Placing,
    Running,
    Collecting,
    Done,
}

/// What the next chunk belongs to, and how many bytes of it are still to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Body {
    None,
    Output { left: u64 },
    File { left: u64 },
}

/// What a message asks of the listener.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'a> {
    Nothing,
    Started,
    Log {
        stream: OutputStream,
        bytes: &'a [u8],
    },
    /// Every process is dead; collecting begins.
    Exited(ExitStatus),
    /// A file begins; one of no bytes is already complete.
    File {
        path: &'a str,
        size: u64,
    },
    /// The next bytes of the file; the last ones complete it.
    Chunk {
        bytes: &'a [u8],
        last: bool,
    },
    /// The job does not fit into the sandbox's file system.
    NoRoom,
    /// The job could not be placed.
    Failed {
        step: &'a str,
        errno: i32,
    },
    Done,
}

/// What the guest did wrong.
pub type Violation = &'static str;

impl Conversation {
    pub fn new(streams: StreamMode, output_limits: OutputLimits) -> Self {
        Conversation {
            streams,
            output_limits,
            state: State::Placing,
            body: Body::None,
            log_bytes: 0,
            file_bytes: 0,
            files: BTreeSet::new(),
            output_seen: false,
            output: BytesMut::new(),
            heard: Heard::default(),
        }
    }

    /// Checks one message and says what it asks for.
    pub fn hear<'a>(&mut self, message: FromGuest<'a>) -> Result<Event<'a>, Violation> {
        match (self.state, message) {
            (
                State::Placing,
                FromGuest::Failed { errno: libc::ENOSPC | libc::EDQUOT | libc::EFBIG, .. },
            ) => {
                self.state = State::Done;
                self.heard.no_room = true;
                Ok(Event::NoRoom)
            }
            (State::Placing, FromGuest::Failed { step, errno }) => {
                self.state = State::Done;
                Ok(Event::Failed { step, errno })
            }
            (State::Placing, FromGuest::Started) => {
                self.state = State::Running;
                self.heard.started = true;
                Ok(Event::Started)
            }
            (State::Placing, FromGuest::Exit(exit))
                if matches!(exit.status, ExitStatus::NotStarted(_)) =>
            {
                self.exit(exit)
            }
            (State::Running, FromGuest::Log { stream, bytes }) => self.log(stream, bytes),
            (State::Running, FromGuest::Tried(attempt)) => self.tried(attempt),
            (State::Running, FromGuest::Exit(exit))
                if !matches!(exit.status, ExitStatus::NotStarted(_)) =>
            {
                self.exit(exit)
            }
            (State::Collecting, FromGuest::Chunk(bytes)) => self.chunk(bytes),
            (State::Collecting, _) if self.body != Body::None => {
                Err("announced more bytes than it sent")
            }
            (State::Collecting, FromGuest::Output { size }) => self.output(size),
            (State::Collecting, FromGuest::File { path, size }) => self.file(path, size),
            (State::Collecting, FromGuest::Skipped { path, why }) => self.skipped(path, why),
            (State::Collecting, FromGuest::Done) => {
                self.state = State::Done;
                self.heard.done = true;
                Ok(Event::Done)
            }
            _ => Err("message out of order"),
        }
    }

    /// What was heard in all. An output document that did not arrive whole is none.
    pub fn end(mut self) -> Heard {
        if self.output_seen
            && !self.heard.output_too_large
            && !matches!(self.body, Body::Output { .. })
        {
            self.heard.output = Some(self.output.freeze());
        }
        self.heard
    }

    fn log<'a>(&mut self, stream: OutputStream, bytes: &'a [u8]) -> Result<Event<'a>, Violation> {
        if (self.streams == StreamMode::Merged) != (stream == OutputStream::Merged) {
            return Err("log of a stream that was not asked for");
        }
        if bytes.is_empty() {
            return Err("empty log");
        }
        self.log_bytes += bytes.len() as u64;
        if self.log_bytes > self.output_limits.log_bytes {
            return Err("more log bytes than allowed");
        }
        self.heard.bytes_out += bytes.len() as u64;
        Ok(Event::Log { stream, bytes })
    }

    fn tried(&mut self, attempt: ConnectAttempt) -> Result<Event<'static>, Violation> {
        if self.heard.connect_attempts.len() >= MAX_CONNECT_ATTEMPTS {
            return Err("more attempts than allowed");
        }
        self.heard.connect_attempts.push(attempt);
        Ok(Event::Nothing)
    }

    fn exit(&mut self, exit: ExitReport) -> Result<Event<'static>, Violation> {
        let possible = match exit.status {
            ExitStatus::Code(code) => (0..=255).contains(&code),
            ExitStatus::Signal(signal) => (1..=64).contains(&signal),
            ExitStatus::NotStarted(errno) => (1..4096).contains(&errno),
        };
        if !possible {
            return Err("an exit status that no process can have");
        }
        self.state = State::Collecting;
        self.heard.exit = Some(exit);
        Ok(Event::Exited(exit.status))
    }

    fn output(&mut self, size: u64) -> Result<Event<'static>, Violation> {
        if std::mem::replace(&mut self.output_seen, true) {
            return Err("a second output document");
        }
        if size > self.output_limits.output_bytes {
            self.heard.output_too_large = true;
        } else if size > 0 {
            self.body = Body::Output { left: size };
        }
        Ok(Event::Nothing)
    }

    fn file<'a>(&mut self, path: &'a str, size: u64) -> Result<Event<'a>, Violation> {
        if !names::plain_path(path) {
            return Err("a file with a path that is not allowed");
        }
        if self.files.len() as u64 >= u64::from(self.output_limits.artifact_files) {
            return Err("more files than allowed");
        }
        self.file_bytes = self.file_bytes.saturating_add(size);
        if self.file_bytes > self.output_limits.artifact_bytes {
            return Err("more bytes in files than allowed");
        }
        if self.clashes(path) {
            return Err("two files with the same path");
        }
        self.files.insert(path.to_owned());
        if size > 0 {
            self.body = Body::File { left: size };
        }
        Ok(Event::File { path, size })
    }

    /// Whether this path was seen, or would be a directory of one that was, or the other way round.
    fn clashes(&self, path: &str) -> bool {
        let above = path.match_indices('/').any(|(end, _)| self.files.contains(&path[..end]));
        let below = format!("{path}/");
        let inside =
            self.files.range(below.clone()..).next().is_some_and(|next| next.starts_with(&below));
        above || inside || self.files.contains(path)
    }

    fn chunk<'a>(&mut self, bytes: &'a [u8]) -> Result<Event<'a>, Violation> {
        let length = bytes.len() as u64;
        if length == 0 {
            return Err("empty chunk");
        }
        let remains = |left: u64| left.checked_sub(length).ok_or("more bytes than announced");
        let event = match self.body {
            Body::None => return Err("a chunk of nothing"),
            Body::Output { left } => {
                let left = remains(left)?;
                self.output.extend_from_slice(bytes);
                self.body = if left == 0 { Body::None } else { Body::Output { left } };
                Event::Nothing
            }
            Body::File { left } => {
                let left = remains(left)?;
                self.body = if left == 0 { Body::None } else { Body::File { left } };
                Event::Chunk { bytes, last: left == 0 }
            }
        };
        self.heard.bytes_out += length;
        Ok(event)
    }

    fn skipped(&mut self, path: &str, why: SkipReason) -> Result<Event<'static>, Violation> {
        if self.heard.skipped.len() >= MAX_SKIPPED {
            return Err("more skipped files than allowed");
        }
        if path.len() > names::MAX_PATH || path.chars().any(char::is_control) {
            return Err("a skipped file with a path that is not allowed");
        }
        self.heard
            .skipped
            .push(SkippedFile { path: path.to_owned(), reason: describe(why).to_owned() });
        Ok(Event::Nothing)
    }
}

fn describe(why: SkipReason) -> &'static str {
    match why {
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
#[path = "conversation_tests.rs"]
mod tests;
