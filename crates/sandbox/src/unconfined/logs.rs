//! Forwards the script's log from its pipes to the sink, up to a limit.

use std::io::{self, PipeReader};
use std::os::fd::OwnedFd;
use std::time::Duration;

use futures_util::future::select_all;
use tokio::net::unix::pipe::Receiver;

use crate::OutputStream;
use crate::job::Sink;

/// The time to read the rest of the pipes after all processes were killed. Only a process that
/// could not be killed still has one open.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

const CHUNK_BYTES: usize = 64 << 10;

/// Our ends of the pipes.
pub(super) struct LogPipes(Vec<(OutputStream, Receiver)>);

impl LogPipes {
    pub(super) fn open<const N: usize>(
        ends: [(OutputStream, PipeReader); N],
    ) -> io::Result<LogPipes> {
        let open = |(stream, end)| Ok((stream, Receiver::from_owned_fd(OwnedFd::from(end))?));
        Ok(LogPipes(ends.into_iter().map(open).collect::<io::Result<_>>()?))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Waits until one of the pipes is readable or closed. There must be at least one.
    pub(super) async fn ready(&self) -> usize {
        select_all(self.0.iter().map(|(_, pipe)| Box::pin(pipe.readable()))).await.1
    }
}

/// Forwards log bytes up to a limit.
pub(super) struct LogRelay<'a> {
    remaining: u64,
    pub truncated: bool,
    buffer: Vec<u8>,
    sink: &'a mut dyn Sink,
}

impl<'a> LogRelay<'a> {
    pub(super) fn new(max_bytes: u64, sink: &'a mut dyn Sink) -> LogRelay<'a> {
        LogRelay { remaining: max_bytes, truncated: false, buffer: vec![0; CHUNK_BYTES], sink }
    }

    /// Forwards the available bytes of this pipe, or removes it at its end.
    pub(super) async fn forward(&mut self, pipes: &mut LogPipes, index: usize) {
        let (stream, pipe) = &pipes.0[index];
        let count = match pipe.try_read(&mut self.buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Ok(0) | Err(_) => return drop(pipes.0.remove(index)),
            Ok(count) => count,
        };
        let fits = (count as u64).min(self.remaining);
        self.remaining -= fits;
        self.truncated |= fits < count as u64;
        if fits > 0 {
            self.sink.log(*stream, &self.buffer[..fits as usize]).await;
        }
    }

    /// Forwards the rest of all pipes.
    pub(super) async fn drain(&mut self, pipes: &mut LogPipes) {
        let rest = async {
            while !pipes.is_empty() {
                let index = pipes.ready().await;
                self.forward(pipes, index).await;
            }
        };
        let _ = tokio::time::timeout(DRAIN_TIMEOUT, rest).await;
    }
}
