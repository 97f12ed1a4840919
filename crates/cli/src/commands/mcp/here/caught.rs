//! What comes out of a run: the end of its log, and its files on disk.

use std::path::PathBuf;

use anyhow::Result;
use async_trait::async_trait;
use mcp::{RunArtifact, RunProgress, RunResult};
use sandbox::{OutputStream, Sink, SinkError, StreamMode};

use super::Files;
use crate::local::{self, Facts};
use crate::target::{Incoming, Target};

/// The end of a log that is kept for an answer.
const LOG_BYTES: usize = 256 << 10;

pub struct Caught {
    progress: RunProgress,
    log: Tail,
    /// Of a script that was named, each stream by itself too.
    apart: Option<(Tail, Tail)>,
    place: PathBuf,
    target: Option<Target>,
    incoming: Option<(Incoming, (String, u64))>,
    /// Names and sizes of those that arrived whole.
    pub files: Vec<(String, u64)>,
}

/// The end of a stream.
#[derive(Default)]
struct Tail(Vec<u8>);

impl Tail {
    fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
        if self.0.len() > 2 * LOG_BYTES {
            self.0.drain(..self.0.len() - LOG_BYTES);
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }
}

impl Caught {
    /// Files go to `place`, which is made for the first.
    pub fn new(progress: RunProgress, streams: StreamMode, place: PathBuf) -> Caught {
        let apart = (streams == StreamMode::Split).then(Default::default);
        Caught {
            progress,
            log: Tail::default(),
            apart,
            place,
            target: None,
            incoming: None,
            files: Vec::new(),
        }
    }

    fn start(&mut self, path: &str, size: u64) -> Result<()> {
        let target = match self.target.take() {
            Some(target) => target,
            None => Target::open(&self.place)?,
        };
        let incoming = self.target.insert(target).create(path, false)?;
        self.incoming = Some((incoming, (path.to_owned(), size)));
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        if let Some((file, named)) = self.incoming.take() {
            file.finish()?;
            self.files.push(named);
        }
        Ok(())
    }

    pub fn ended(self, id: String, ended: &runner::Ended, facts: Facts, kept: &Files) -> RunResult {
        let (stdout, stderr) =
            self.apart.as_ref().map(|(stdout, stderr)| (stdout.text(), stderr.text())).unzip();
        let artifact = |(name, size_bytes): (String, u64)| {
            let url = kept.url(&id, &name);
            RunArtifact { name, size_bytes, url, ..RunArtifact::default() }
        };
        RunResult {
            files: self.files.iter().cloned().map(artifact).collect(),
            execution_id: id.clone(),
            status: local::status(ended).to_owned(),
            outcome: Some(ended.outcome.as_str().to_owned()),
            exit_code: ended.exit_code,
            duration_ms: i64::try_from(ended.usage.wall_ms).unwrap_or(i64::MAX),
            error: ended.error.clone(),
            output: ended.output.as_deref().and_then(|output| serde_json::from_str(output).ok()),
            logs: Some(self.log.text()).filter(|logs| !logs.is_empty()),
            stdout,
            stderr,
            skill_version: facts.version,
            digest: facts.digest,
        }
    }
}

fn failed(error: anyhow::Error) -> SinkError {
    SinkError(format!("{error:#}"))
}

#[async_trait]
impl Sink for Caught {
    async fn log(&mut self, stream: OutputStream, bytes: &[u8]) {
        self.progress.report(&String::from_utf8_lossy(bytes));
        self.log.push(bytes);
        match (&mut self.apart, stream) {
            (Some((stdout, _)), OutputStream::Stdout) => stdout.push(bytes),
            (Some((_, stderr)), OutputStream::Stderr) => stderr.push(bytes),
            _ => {}
        }
    }

    async fn file_start(&mut self, path: &str, size: u64) -> Result<(), SinkError> {
        self.start(path, size).map_err(failed)
    }

    async fn file_chunk(&mut self, bytes: &[u8]) -> Result<(), SinkError> {
        self.incoming.as_mut().map_or(Ok(()), |(file, _)| file.write(bytes)).map_err(failed)
    }

    async fn file_end(&mut self) -> Result<(), SinkError> {
        self.finish().map_err(failed)
    }
}
