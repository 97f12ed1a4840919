//! Sends a job to a guest that has not run anything yet.

use guest::frame::{CHUNK, FrameError};
use guest::protocol::{Run, ToGuest};

use crate::job::{Job, Streams};
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
    let texts = job.argv.iter().chain(job.env.iter().flat_map(|(name, value)| [name, value])).chain([&job.cwd]);
    if texts.into_iter().any(|text| text.contains('\0')) {
        return Err("a NUL character in the arguments or the environment".into());
    }
    match job.env.iter().find(|(name, _)| name.is_empty() || name.contains('=') || name == "PATH") {
        Some((name, _)) => Err(format!("{name:?} cannot be set in the environment")),
        None => Ok(()),
    }
}

/// Sends everything up to and including the order to run.
pub async fn deliver(sender: &mut Sender, job: &Job) -> Result<Delivered, FrameError> {
    match send(sender, job).await {
        Ok(()) => Ok(Delivered::Whole),
        Err(SendError::Gone) => Ok(Delivered::BrokenOff),
        Err(SendError::Frame(error)) => Err(error),
    }
}

async fn send(sender: &mut Sender, job: &Job) -> Result<(), SendError> {
    for file in &job.files {
        let size = file.bytes.len() as u64;
        sender.send(&ToGuest::File { path: &file.path, size, executable: file.executable }).await?;
        send_bytes(sender, &file.bytes).await?;
    }
    for (path, target) in &job.links {
        sender.send(&ToGuest::Link { path, target }).await?;
    }
    if let Some(stdin) = &job.stdin {
        sender.send(&ToGuest::Stdin { size: stdin.len() as u64 }).await?;
        send_bytes(sender, stdin).await?;
    }
    sender.send(&ToGuest::Run(order(job))).await?;
    sender.finish().await
}

async fn send_bytes(sender: &mut Sender, bytes: &[u8]) -> Result<(), SendError> {
    for chunk in bytes.chunks(CHUNK) {
        sender.send(&ToGuest::Chunk(chunk)).await?;
    }
    Ok(())
}

fn order(job: &Job) -> Run<'_> {
    Run {
        argv: job.argv.iter().map(String::as_str).collect(),
        env: job.env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect(),
        cwd: &job.cwd,
        split_streams: job.streams == Streams::Split,
        log_bytes: job.caps.log_bytes,
        output_bytes: job.caps.output_bytes,
        artifact_bytes: job.caps.artifact_bytes,
        artifact_files: job.caps.artifact_files,
    }
}

/// The bytes of files and standard input.
pub fn bytes_in(job: &Job) -> u64 {
    let files: u64 = job.files.iter().map(|file| file.bytes.len() as u64).sum();
    files + job.stdin.as_ref().map_or(0, |stdin| stdin.len() as u64)
}
