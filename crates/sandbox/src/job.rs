//! The job of a sandbox: what to run, the limits on its output, and the sink for its bytes.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::io::AsyncRead;

use crate::OutputStream;

/// One process to run, with all of its inputs. A plain value, computed by a pure function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    pub files: Vec<JobFile>,
    /// Files that are read while they are sent, after the others.
    pub streamed: Vec<StreamedFile>,
    /// Symbolic links to create, as path and target.
    pub links: Vec<(String, String)>,
    /// `argv[0]` without a slash is looked up in the sandbox's own `PATH`.
    pub argv: Vec<String>,
    /// The complete environment except `PATH`, which the sandbox sets.
    pub env: Vec<(String, String)>,
    pub cwd: String,
    /// Standard input; without it the script reads an end of file.
    pub stdin: Option<Bytes>,
    pub streams: StreamMode,
    pub output_limits: OutputLimits,
    /// Measured from the start of the process, by the host's clock.
    pub timeout: Duration,
}

/// A file that is written before the process starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobFile {
    /// Absolute, below one of the writable directories of the sandbox.
    pub path: String,
    pub bytes: Bytes,
    pub executable: bool,
}

/// A file that is written before the process starts, and never held in memory as a whole.
#[derive(Clone)]
pub struct StreamedFile {
    /// As in [`JobFile`].
    pub path: String,
    pub size: u64,
    pub source: Arc<dyn FileSource>,
}

/// The source of the bytes of a [`StreamedFile`].
#[async_trait]
pub trait FileSource: Send + Sync {
    /// A stream with exactly the announced size. [`io::ErrorKind::InvalidData`] and
    /// [`io::ErrorKind::NotFound`] are permanent errors of the file; any other may be transient.
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

/// Compares paths and sizes; the contents are not known before they are streamed.
impl PartialEq for StreamedFile {
    fn eq(&self, other: &StreamedFile) -> bool {
        (&self.path, self.size) == (&other.path, other.size)
    }
}

impl Eq for StreamedFile {}

/// How standard output and standard error are transferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamMode {
    /// Through one pipe, which keeps their exact order.
    Merged,
    /// Through two pipes, which keeps them separate.
    Split,
}

/// The limits on the output of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputLimits {
    pub log_bytes: u64,
    pub output_bytes: u64,
    /// The sum of the sizes of all artifacts.
    pub artifact_bytes: u64,
    pub artifact_files: u32,
}

/// The receiver of a run's bytes, while it runs. Calls are made in this order: `file_start`,
/// `file_chunk`…, `file_end`.
///
/// Paths are relative, have no `.`, `..` or control characters, and are unique within a run. When a
/// run ends early, the last file may lack its `file_end`; such a file must be discarded.
#[async_trait]
pub trait Sink: Send {
    async fn log(&mut self, stream: OutputStream, bytes: &[u8]);
    async fn file_start(&mut self, path: &str, size: u64) -> Result<(), SinkError>;
    async fn file_chunk(&mut self, bytes: &[u8]) -> Result<(), SinkError>;
    async fn file_end(&mut self) -> Result<(), SinkError>;
}

/// The sink could not store a run's bytes. The run ends with an error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SinkError(pub String);
