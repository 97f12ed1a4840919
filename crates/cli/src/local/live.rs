//! A run's bytes as they come: the log to where a person or a pipe reads it, the files to a
//! directory.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

use async_trait::async_trait;
use sandbox::{OutputStream, Sink, SinkError};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::target::{Incoming, Target};
use crate::text;

/// Where the script's two streams go.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Show {
    /// Each to our own of the same name: the script is a program like any other.
    Apart,
    /// Both to standard error: they are words about the document that follows.
    AsWords,
    /// Both to standard output, and standard error is left to us.
    AsOutput,
}

/// One file that the run left.
#[derive(Debug, Clone, Serialize)]
pub struct Saved {
    pub name: String,
    pub size_bytes: u64,
}

/// Passes everything on while the run goes on.
pub struct Live {
    show: Show,
    stdout: Outlet,
    stderr: Outlet,
    kept: Option<Kept>,
    directory: Option<PathBuf>,
    target: Option<Target>,
    incoming: Option<Incoming>,
    pub files: Vec<Saved>,
    /// Cancelled when nobody reads our standard output any more.
    pub unread: CancellationToken,
}

/// The streams as text, for a document that is printed at the end.
#[derive(Default)]
pub struct Kept {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

impl Live {
    pub fn new(show: Show, keep: bool, directory: Option<PathBuf>) -> Live {
        Live {
            show,
            stdout: Outlet::new(io::stdout().is_terminal()),
            stderr: Outlet::new(io::stderr().is_terminal()),
            kept: keep.then(Kept::default),
            directory,
            target: None,
            incoming: None,
            files: Vec::new(),
            unread: CancellationToken::new(),
        }
    }

    /// What was kept of the streams.
    pub fn kept(&mut self) -> Option<Kept> {
        self.kept.take()
    }

    fn start(&mut self, path: &str) -> anyhow::Result<()> {
        let Some(directory) = &self.directory else { return Ok(()) };
        if self.target.is_none() {
            self.target = Some(Target::open(directory)?);
        }
        self.incoming =
            self.target.as_ref().map(|target| target.create(path, false)).transpose()?;
        Ok(())
    }
}

#[async_trait]
impl Sink for Live {
    async fn log(&mut self, stream: OutputStream, bytes: &[u8]) {
        if let Some(kept) = &mut self.kept {
            let kept =
                if stream == OutputStream::Stderr { &mut kept.stderr } else { &mut kept.stdout };
            kept.extend_from_slice(bytes);
        }
        let to_stdout = match self.show {
            Show::Apart => stream != OutputStream::Stderr,
            Show::AsWords => false,
            Show::AsOutput => true,
        };
        let written = match to_stdout {
            true => self.stdout.write(&mut io::stdout().lock(), bytes),
            // If nobody listens on standard error, nothing is lost.
            false => self.stderr.write(&mut io::stderr().lock(), bytes).or(Ok(())),
        };
        if written.is_err() {
            self.unread.cancel();
        }
    }

    async fn file_start(&mut self, path: &str, size: u64) -> Result<(), SinkError> {
        self.files.push(Saved { name: path.to_owned(), size_bytes: size });
        self.start(path).map_err(refused)
    }

    async fn file_chunk(&mut self, bytes: &[u8]) -> Result<(), SinkError> {
        self.incoming.as_mut().map_or(Ok(()), |file| file.write(bytes)).map_err(refused)
    }

    async fn file_end(&mut self) -> Result<(), SinkError> {
        self.incoming.take().map_or(Ok(()), Incoming::finish).map_err(refused)
    }
}

fn refused(error: anyhow::Error) -> SinkError {
    SinkError(format!("{error:#}"))
}

/// One of our streams. What goes to a person is made harmless first, what goes to a pipe is left
/// alone.
struct Outlet {
    harmless: bool,
    /// A character of which the rest has not come yet.
    pending: Vec<u8>,
}

impl Outlet {
    fn new(harmless: bool) -> Outlet {
        Outlet { harmless, pending: Vec::new() }
    }

    fn write(&mut self, to: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
        match self.harmless {
            true => to.write_all(text::harmless(&self.text(bytes)).as_bytes())?,
            false => to.write_all(bytes)?,
        }
        to.flush()
    }

    fn text(&mut self, bytes: &[u8]) -> String {
        self.pending.extend_from_slice(bytes);
        let bytes = std::mem::take(&mut self.pending);
        let whole = match std::str::from_utf8(&bytes) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => bytes.len(),
        };
        self.pending = bytes[whole..].to_vec();
        String::from_utf8_lossy(&bytes[..whole]).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_gets_whole_characters_and_no_commands() {
        let mut outlet = Outlet::new(true);
        let mut seen = Vec::new();
        for byte in "é\x1b[2J€".as_bytes() {
            outlet.write(&mut seen, &[*byte]).expect("memory");
        }
        assert_eq!(String::from_utf8(seen).expect("text"), "é\u{fffd}[2J€");
    }

    #[test]
    fn a_pipe_gets_every_byte() {
        let mut seen = Vec::new();
        Outlet::new(false).write(&mut seen, b"\xff\0\x1b[2J").expect("memory");
        assert_eq!(seen, b"\xff\0\x1b[2J");
    }
}
