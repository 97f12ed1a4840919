//! Sends a job to a guest that has not run a script yet.

use guest::frame::CHUNK;
use guest::protocol::{RunRequest, ToGuest};
use tokio::io::AsyncReadExt;

use crate::guest_error::GuestError;
use crate::job::{Job, StreamMode, StreamedFile};
use crate::wire::{SendFailure, Sender};

/// Rejects a job that the protocol or `execve` cannot represent, before any byte is sent.
pub(crate) fn validate(job: &Job) -> Result<(), String> {
    if job.argv.is_empty() {
        return Err("the command is empty".into());
    }
    let texts = job
        .argv
        .iter()
        .chain(job.env.iter().flat_map(|(name, value)| [name, value]))
        .chain([&job.cwd]);
    if texts.into_iter().any(|text| text.contains('\0')) {
        return Err("the arguments or the environment contain a NUL character".into());
    }
    match job.env.iter().find(|(name, _)| name.is_empty() || name.contains('=') || name == "PATH") {
        Some((name, _)) => Err(format!("{name:?} cannot be set in the environment")),
        None => Ok(()),
    }
}

/// Sends the files, standard input and the run request. A disconnect is not an error here: the
/// guest may have sent the cause, which the caller receives next.
pub(crate) async fn send_job(sender: &mut Sender, job: &Job) -> Result<(), GuestError> {
    match send_messages(sender, job).await {
        Ok(()) | Err(DeliveryError::Send(SendFailure::Disconnected)) => Ok(()),
        Err(DeliveryError::Send(SendFailure::Frame(error))) => {
            Err(GuestError::Job(error.to_string()))
        }
        Err(DeliveryError::Source { path, source }) => Err(GuestError::Source { path, source }),
    }
}

/// Why a job could not be sent.
enum DeliveryError {
    Send(SendFailure),
    /// A file could not be read on the host.
    Source {
        path: String,
        source: std::io::Error,
    },
}

impl From<SendFailure> for DeliveryError {
    fn from(error: SendFailure) -> DeliveryError {
        DeliveryError::Send(error)
    }
}

async fn send_messages(sender: &mut Sender, job: &Job) -> Result<(), DeliveryError> {
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
    sender.send(&ToGuest::Run(run_request(job))).await?;
    Ok(sender.finish().await?)
}

/// Sends a file from its source. The guest expects exactly the announced size, so a source that
/// ends early fails the delivery.
async fn send_streamed(sender: &mut Sender, file: &StreamedFile) -> Result<(), DeliveryError> {
    let failed = |source| DeliveryError::Source { path: file.path.clone(), source };
    let mut stream = file.source.open().await.map_err(failed)?;
    sender.send(&ToGuest::File { path: &file.path, size: file.size, executable: false }).await?;
    let mut chunk = vec![0; CHUNK];
    let mut remaining = file.size;
    while remaining > 0 {
        let length = usize::try_from(remaining).unwrap_or(CHUNK).min(CHUNK);
        let read = stream.read(&mut chunk[..length]).await.map_err(failed)?;
        if read == 0 {
            return Err(failed(std::io::ErrorKind::UnexpectedEof.into()));
        }
        sender.send(&ToGuest::Chunk(&chunk[..read])).await?;
        remaining -= read as u64;
    }
    Ok(())
}

async fn send_bytes(sender: &mut Sender, bytes: &[u8]) -> Result<(), SendFailure> {
    for chunk in bytes.chunks(CHUNK) {
        sender.send(&ToGuest::Chunk(chunk)).await?;
    }
    Ok(())
}

fn run_request(job: &Job) -> RunRequest<'_> {
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

/// The size of all files and standard input.
pub(crate) fn input_bytes(job: &Job) -> u64 {
    let files: u64 = job.files.iter().map(|file| file.bytes.len() as u64).sum();
    let streamed: u64 = job.streamed.iter().map(|file| file.size).sum();
    files + streamed + job.stdin.as_ref().map_or(0, |stdin| stdin.len() as u64)
}
