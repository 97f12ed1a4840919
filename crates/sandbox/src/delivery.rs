//! Sends a job to a guest that has not run anything yet.

use guest::frame::CHUNK;
use guest::protocol::{RunRequest, ToGuest};
use tokio::io::AsyncReadExt;

use crate::guest::GuestError;
use crate::job::{Job, StreamMode, StreamedFile};
use crate::wire::{SendError, Sender};

/// How a delivery ended.
pub enum Delivered {
    Whole,
    /// The guest stopped listening; it may have said why.
    BrokenOff,
}

/// Refuses what cannot be said to a guest or to `execve`, so that it never gets half way.
pub fn check(job: &Job) -> Result<(), String> {
    if job.argv.is_empty() {
        return Err("nothing to run".into());
    }
    let texts = job
        .argv
        .iter()
        .chain(job.env.iter().flat_map(|(name, value)| [name, value]))
        .chain([&job.cwd]);
    if texts.into_iter().any(|text| text.contains('\0')) {
        return Err("a NUL character in the arguments or the environment".into());
    }
    match job.env.iter().find(|(name, _)| name.is_empty() || name.contains('=') || name == "PATH") {
        Some((name, _)) => Err(format!("{name:?} cannot be set in the environment")),
        None => Ok(()),
    }
}

/// Sends everything up to and including the order to run.
pub async fn deliver(sender: &mut Sender, job: &Job) -> Result<Delivered, GuestError> {
    match send(sender, job).await {
        Ok(()) => Ok(Delivered::Whole),
        Err(Undelivered::Send(SendError::Gone)) => Ok(Delivered::BrokenOff),
        Err(Undelivered::Send(SendError::Frame(error))) => Err(GuestError::Job(error.to_string())),
        Err(Undelivered::Source { path, source }) => Err(GuestError::Source { path, source }),
    }
}

/// Why a job did not get to its guest.
enum Undelivered {
    Send(SendError),
    /// A file could not be read on our side.
    Source {
        path: String,
        source: std::io::Error,
    },
}

impl From<SendError> for Undelivered {
    fn from(error: SendError) -> Undelivered {
        Undelivered::Send(error)
    }
}

async fn send(sender: &mut Sender, job: &Job) -> Result<(), Undelivered> {
    for file in &job.files {
        let size = file.bytes.len() as u64;
        sender.send(&ToGuest::File { path: &file.path, size, executable: file.executable }).await?;
        send_bytes(sender, &file.bytes).await?;
    }
    for file in &job.streamed {
        send_streamed(sender, file).await?;
    }
    for (path, target) in &job.links {
        sender.send(&ToGuest::Link { path, target }).await?;
    }
    if let Some(stdin) = &job.stdin {
        sender.send(&ToGuest::Stdin { size: stdin.len() as u64 }).await?;
        send_bytes(sender, stdin).await?;
    }
    sender.send(&ToGuest::Run(order(job))).await?;
    Ok(sender.finish().await?)
}

/// The guest takes exactly the announced bytes, so a stream that ends early ends the delivery.
async fn send_streamed(sender: &mut Sender, file: &StreamedFile) -> Result<(), Undelivered> {
    let failed = |source| Undelivered::Source { path: file.path.clone(), source };
    let mut stream = file.source.open().await.map_err(failed)?;
    sender.send(&ToGuest::File { path: &file.path, size: file.size, executable: false }).await?;
    let mut chunk = vec![0; CHUNK];
    let mut left = file.size;
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
        let read = stream.read(&mut chunk[..most]).await.map_err(failed)?;
        if read == 0 {
            return Err(failed(std::io::ErrorKind::UnexpectedEof.into()));
        }
        sender.send(&ToGuest::Chunk(&chunk[..read])).await?;
        left -= read as u64;
    }
    Ok(())
}

async fn send_bytes(sender: &mut Sender, bytes: &[u8]) -> Result<(), SendError> {
    for chunk in bytes.chunks(CHUNK) {
        sender.send(&ToGuest::Chunk(chunk)).await?;
    }
    Ok(())
}

fn order(job: &Job) -> RunRequest<'_> {
    RunRequest {
        argv: job.argv.iter().map(String::as_str).collect(),
        env: job.env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect(),
        cwd: &job.cwd,
        split_streams: job.streams == StreamMode::Split,
        log_bytes: job.output_limits.log_bytes,
        output_bytes: job.output_limits.output_bytes,
        artifact_bytes: job.output_limits.artifact_bytes,
        artifact_files: job.output_limits.artifact_files,
    }
}

/// The bytes of files and standard input.
pub fn bytes_in(job: &Job) -> u64 {
    let files: u64 = job.files.iter().map(|file| file.bytes.len() as u64).sum();
    let streamed: u64 = job.streamed.iter().map(|file| file.size).sum();
    files + streamed + job.stdin.as_ref().map_or(0, |stdin| stdin.len() as u64)
}
