//! The script's log on its way from pipes to a sink, cut at its cap.

use std::io::{self, PipeReader};
use std::os::fd::OwnedFd;
use std::time::Duration;

use futures_util::future::select_all;
use tokio::net::unix::pipe::Receiver;

use crate::OutputStream;
use crate::job::Sink;

/// How long the rest may take once everybody was ended; only who could not be still holds a pipe.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

const CHUNK_BYTES: usize = 64 << 10;

/// The ends that we read.
pub struct LogPipes(Vec<(OutputStream, Receiver)>);

impl LogPipes {
    pub fn open<const N: usize>(ends: [(OutputStream, PipeReader); N]) -> io::Result<LogPipes> {
        let open = |(stream, end)| Ok((stream, Receiver::from_owned_fd(OwnedFd::from(end))?));
        Ok(LogPipes(ends.into_iter().map(open).collect::<io::Result<_>>()?))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Waits until one of them has something to read, or its end. There must be one.
    pub async fn ready(&self) -> usize {
        select_all(self.0.iter().map(|(_, pipe)| Box::pin(pipe.readable()))).await.1
    }
}

/// What may still be passed on.
pub struct LogRelay<'a> {
    left: u64,
    pub truncated: bool,
    buffer: Vec<u8>,
    sink: &'a mut dyn Sink,
}

impl<'a> LogRelay<'a> {
    pub fn new(cap: u64, sink: &'a mut dyn Sink) -> LogRelay<'a> {
        LogRelay { left: cap, truncated: false, buffer: vec![0; CHUNK_BYTES], sink }
    }

    /// Passes on what this pipe has now, or takes it away at its end.
    pub async fn forward(&mut self, pipes: &mut LogPipes, index: usize) {
        let (stream, pipe) = &pipes.0[index];
        let count = match pipe.try_read(&mut self.buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Ok(0) | Err(_) => return drop(pipes.0.remove(index)),
            Ok(count) => count,
        };
        let fits = (count as u64).min(self.left);
        self.left -= fits;
        self.truncated |= fits < count as u64;
        if fits > 0 {
            self.sink.log(*stream, &self.buffer[..fits as usize]).await;
        }
    }

    /// Passes on all that is left.
    pub async fn drain(&mut self, pipes: &mut LogPipes) {
        let rest = async {
            while !pipes.is_empty() {
                let index = pipes.ready().await;
                self.forward(pipes, index).await;
            }
        };
        let _ = tokio::time::timeout(DRAIN_TIMEOUT, rest).await;
    }
}
