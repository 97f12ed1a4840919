//! The script's log on its way from pipes to a sink, cut at its cap.

use std::io::{self, PipeReader};
use std::os::fd::OwnedFd;
use std::time::Duration;

use futures_util::future::select_all;
use tokio::net::unix::pipe::Receiver;

use crate::OutputStream;
use crate::job::Sink;

/// How long the rest may take once everybody was ended; only who could not be still holds a pipe.
const LAST_WORDS: Duration = Duration::from_secs(2);

const CHUNK: usize = 64 << 10;

/// The ends that we read.
pub struct Pipes(Vec<(OutputStream, Receiver)>);

impl Pipes {
    pub fn open<const N: usize>(ends: [(OutputStream, PipeReader); N]) -> io::Result<Pipes> {
        let open = |(stream, end)| Ok((stream, Receiver::from_owned_fd(OwnedFd::from(end))?));
        Ok(Pipes(ends.into_iter().map(open).collect::<io::Result<_>>()?))
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
pub struct Logs<'a> {
    left: u64,
    pub truncated: bool,
    buffer: Vec<u8>,
    sink: &'a mut dyn Sink,
}

impl<'a> Logs<'a> {
    pub fn new(cap: u64, sink: &'a mut dyn Sink) -> Logs<'a> {
        Logs { left: cap, truncated: false, buffer: vec![0; CHUNK], sink }
    }

    /// Passes on what this pipe has now, or takes it away at its end.
    pub async fn pass_on(&mut self, pipes: &mut Pipes, index: usize) {
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
    pub async fn drain(&mut self, pipes: &mut Pipes) {
        let rest = async {
            while !pipes.is_empty() {
                let index = pipes.ready().await;
                self.pass_on(pipes, index).await;
            }
        };
        let _ = tokio::time::timeout(LAST_WORDS, rest).await;
    }
}
