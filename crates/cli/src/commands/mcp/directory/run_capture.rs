//! Captures the output of a run for an MCP answer: the end of its log, and its files on disk.

use std::path::PathBuf;

use anyhow::Result;
use async_trait::async_trait;
use mcp::{RunArtifact, RunProgress, RunResult};
use sandbox::{OutputStream, Sink, SinkError, StreamMode};

use super::RunFiles;
use crate::local_run::RunMetadata;
use crate::output_directory::{OutputDirectory, PartialFile};

/// How much of the end of each stream is kept for the answer.
const MAX_LOG_BYTES: usize = 256 << 10;

pub(super) struct RunCapture {
    progress: RunProgress,
    log: StreamTail,
    /// Standard output and standard error separately, if the caller named a script.
    split: Option<(StreamTail, StreamTail)>,
    path: PathBuf,
    directory: Option<OutputDirectory>,
    partial: Option<(PartialFile, (String, u64))>,
    /// Names and sizes of the files that arrived completely.
    pub files: Vec<(String, u64)>,
}

/// The end of a stream.
#[derive(Default)]
struct StreamTail(Vec<u8>);

impl StreamTail {
    fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
        // Cut only at twice the size, so that the bytes are not moved with every chunk.
        if self.0.len() > 2 * MAX_LOG_BYTES {
            self.0.drain(..self.0.len() - MAX_LOG_BYTES);
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }
}

impl RunCapture {
    /// Files go to the directory `path`, which is made for the first one.
    pub(super) fn new(progress: RunProgress, streams: StreamMode, path: PathBuf) -> RunCapture {
        let split = match streams {
            StreamMode::Split => Some(Default::default()),
            StreamMode::Merged => None,
        };
        RunCapture {
            progress,
            log: StreamTail::default(),
            split,
            path,
            directory: None,
            partial: None,
            files: Vec::new(),
        }
    }

    fn start_file(&mut self, name: &str, size: u64) -> Result<()> {
        let directory = match self.directory.take() {
            Some(directory) => directory,
            None => OutputDirectory::open(&self.path)?,
        };
        let file = self.directory.insert(directory).create(name, false)?;
        self.partial = Some((file, (name.to_owned(), size)));
        Ok(())
    }

    fn finish_file(&mut self) -> Result<()> {
        if let Some((file, entry)) = self.partial.take() {
            file.finish()?;
            self.files.push(entry);
        }
        Ok(())
    }

    pub(super) fn into_ended(
        self,
        id: String,
        result: &runner::StandaloneResult,
        metadata: RunMetadata,
        files: &RunFiles,
    ) -> RunResult {
        let (stdout, stderr) =
            self.split.as_ref().map(|(stdout, stderr)| (stdout.text(), stderr.text())).unzip();
        let artifact = |(name, size_bytes): (String, u64)| {
            let url = files.url(&id, &name);
            RunArtifact { name, size_bytes, url, ..RunArtifact::default() }
        };
        RunResult {
            files: self.files.iter().cloned().map(artifact).collect(),
            execution_id: id.clone(),
            status: result.status().to_owned(),
            outcome: Some(result.outcome.as_str().to_owned()),
            exit_code: result.exit_code,
            duration_ms: i64::try_from(result.usage.wall_ms).unwrap_or(i64::MAX),
            error: result.error.clone(),
            output: result.output.as_deref().and_then(|output| serde_json::from_str(output).ok()),
            logs: Some(self.log.text()).filter(|logs| !logs.is_empty()),
            stdout,
            stderr,
            skill_version: metadata.version,
            digest: metadata.digest,
        }
    }
}

fn sink_error(error: anyhow::Error) -> SinkError {
    SinkError(format!("{error:#}"))
}

#[async_trait]
impl Sink for RunCapture {
    async fn log(&mut self, stream: OutputStream, bytes: &[u8]) {
        self.progress.report(&String::from_utf8_lossy(bytes));
        self.log.push(bytes);
        if let Some((stdout, stderr)) = &mut self.split {
            match stream {
                OutputStream::Stdout => stdout.push(bytes),
                OutputStream::Stderr => stderr.push(bytes),
                OutputStream::Merged => {}
            }
        }
    }

    async fn file_start(&mut self, path: &str, size: u64) -> Result<(), SinkError> {
        self.start_file(path, size).map_err(sink_error)
    }

    async fn file_chunk(&mut self, bytes: &[u8]) -> Result<(), SinkError> {
        self.partial.as_mut().map_or(Ok(()), |(file, _)| file.write(bytes)).map_err(sink_error)
    }

    async fn file_end(&mut self) -> Result<(), SinkError> {
        self.finish_file().map_err(sink_error)
    }
}
