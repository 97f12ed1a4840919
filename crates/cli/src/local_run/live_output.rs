//! Forwards a run's output while it runs: the log to our standard streams, the files to a
//! directory.

use std::io::{self, IsTerminal};
use std::path::PathBuf;

use async_trait::async_trait;
use sandbox::{OutputStream, Sink, SinkError};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::output_directory::{OutputDirectory, PartialFile};
use crate::terminal::StreamWriter;

/// Where the script's two streams go.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogDestination {
    /// Each to our stream of the same name, as for any other program.
    Split,
    /// Both to standard error, because standard output carries the result document.
    Stderr,
    /// Both to standard output, because standard error carries the audit record.
    Stdout,
}

/// One file that the run left.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct SavedFile {
    pub name: String,
    pub size_bytes: u64,
}

/// Forwards the log and the files of a run as they arrive.
pub(super) struct LiveOutput {
    destination: LogDestination,
    stdout: StreamWriter,
    stderr: StreamWriter,
    captured: Option<CapturedStreams>,
    /// Where the files are written; without it they are only counted.
    path: Option<PathBuf>,
    directory: Option<OutputDirectory>,
    partial: Option<PartialFile>,
    pub files: Vec<SavedFile>,
    /// Cancelled when our standard output is closed by its reader.
    pub stdout_closed: CancellationToken,
}

/// The script's streams, for the result document.
#[derive(Default)]
pub(crate) struct CapturedStreams {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

impl LiveOutput {
    pub(super) fn new(
        destination: LogDestination,
        capture: bool,
        path: Option<PathBuf>,
    ) -> LiveOutput {
        LiveOutput {
            destination,
            stdout: StreamWriter::new(io::stdout().is_terminal()),
            stderr: StreamWriter::new(io::stderr().is_terminal()),
            captured: capture.then(CapturedStreams::default),
            path,
            directory: None,
            partial: None,
            files: Vec::new(),
            stdout_closed: CancellationToken::new(),
        }
    }

    pub(super) fn take_captured(&mut self) -> Option<CapturedStreams> {
        self.captured.take()
    }

    fn start_file(&mut self, name: &str) -> anyhow::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        // The directory is made for the first file only: a run without files leaves none.
        if self.directory.is_none() {
            self.directory = Some(OutputDirectory::open(path)?);
        }
        self.partial =
            self.directory.as_ref().map(|directory| directory.create(name, false)).transpose()?;
        Ok(())
    }
}

#[async_trait]
impl Sink for LiveOutput {
    async fn log(&mut self, stream: OutputStream, bytes: &[u8]) {
        if let Some(captured) = &mut self.captured {
            match stream {
                OutputStream::Stdout | OutputStream::Merged => {
                    captured.stdout.extend_from_slice(bytes)
                }
                OutputStream::Stderr => captured.stderr.extend_from_slice(bytes),
            }
        }
        let to_stdout = match self.destination {
            LogDestination::Split => stream != OutputStream::Stderr,
            LogDestination::Stderr => false,
            LogDestination::Stdout => true,
        };
        let written = match to_stdout {
            true => self.stdout.write(&mut io::stdout().lock(), bytes),
            // A closed standard error loses only messages, so the run goes on.
            false => self.stderr.write(&mut io::stderr().lock(), bytes).or(Ok(())),
        };
        // A closed standard output means that nothing reads the result: the run is stopped, as a
        // shell pipeline stops a program with SIGPIPE.
        if written.is_err() {
            self.stdout_closed.cancel();
        }
    }

    async fn file_start(&mut self, path: &str, size: u64) -> Result<(), SinkError> {
        self.files.push(SavedFile { name: path.to_owned(), size_bytes: size });
        self.start_file(path).map_err(sink_error)
    }

    async fn file_chunk(&mut self, bytes: &[u8]) -> Result<(), SinkError> {
        self.partial.as_mut().map_or(Ok(()), |file| file.write(bytes)).map_err(sink_error)
    }

    async fn file_end(&mut self) -> Result<(), SinkError> {
        self.partial.take().map_or(Ok(()), PartialFile::finish).map_err(sink_error)
    }
}

fn sink_error(error: anyhow::Error) -> SinkError {
    SinkError(format!("{error:#}"))
}
