//! What is run in a sandbox, within which bounds, and where its bytes go.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::io::AsyncRead;

use crate::OutputStream;

/// One process to run, with everything it needs. Made by a pure function; nothing in here acts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    pub files: Vec<JobFile>,
    /// Files that are read only while they are sent, after the others.
    pub streamed: Vec<StreamedFile>,
    /// Symbolic links to make, as path and target.
    pub links: Vec<(String, String)>,
    /// `argv[0]` without a slash is looked up in the sandbox's own `PATH`.
    pub argv: Vec<String>,
    /// The whole environment but `PATH`, which is the sandbox's own.
    pub env: Vec<(String, String)>,
    pub cwd: String,
    /// Without it the script reads end of file.
    pub stdin: Option<Bytes>,
    pub streams: StreamMode,
    pub output_limits: OutputLimits,
    /// From the start of the process, by the host's clock.
    pub timeout: Duration,
}

/// A file placed before the process starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobFile {
    /// Absolute, below one of the writable directories of the sandbox.
    pub path: String,
    pub bytes: Bytes,
    pub executable: bool,
}

/// A file that is placed before the process starts and never held in memory as a whole.
#[derive(Clone)]
pub struct StreamedFile {
    /// As in [`JobFile`].
    pub path: String,
    pub size: u64,
    pub source: Arc<dyn FileSource>,
}

/// Where the bytes of a [`StreamedFile`] come from.
#[async_trait]
pub trait FileSource: Send + Sync {
    /// A stream of as many bytes as the file has. An error of [`io::ErrorKind::InvalidData`] or
    /// [`io::ErrorKind::NotFound`] says that the file itself is no good; any other may pass.
    async fn open(&self) -> io::Result<Pin<Box<dyn AsyncRead + Send>>>;
}

impl fmt::Debug for StreamedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamedFile")
            .field("path", &self.path)
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

/// The same file at the same path; what it says is its source's business.
impl PartialEq for StreamedFile {
    fn eq(&self, other: &StreamedFile) -> bool {
        (&self.path, self.size) == (&other.path, other.size)
    }
}

impl Eq for StreamedFile {}

/// How standard output and standard error reach us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamMode {
    /// Through one pipe, so that their order is exact.
    Merged,
    /// Through two, so that they can be told apart.
    Split,
}

/// Bounds on what a run may hand back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputLimits {
    pub log_bytes: u64,
    pub output_bytes: u64,
    /// The sum of the sizes of all artifacts.
    pub artifact_bytes: u64,
    pub artifact_files: u32,
}

/// Where a run's bytes go while it runs. Calls come in order: `file_start`, `file_chunk`…,
/// `file_end`.
///
/// Paths are relative, free of `.` and `..` and control characters, and unique within a run.
/// When a run ends early the last file may lack its `file_end`; such a file must be discarded.
#[async_trait]
pub trait Sink: Send {
    async fn log(&mut self, stream: OutputStream, bytes: &[u8]);
    async fn file_start(&mut self, path: &str, size: u64) -> Result<(), SinkError>;
    async fn file_chunk(&mut self, bytes: &[u8]) -> Result<(), SinkError>;
    async fn file_end(&mut self) -> Result<(), SinkError>;
}

/// The place a run's bytes go to refused them; the run ends as our failure.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SinkError(pub String);
