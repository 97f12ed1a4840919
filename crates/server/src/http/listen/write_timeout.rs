//! A stream with a write timeout. Without it, a client that does not read would hold a response and
//! its connection forever.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// Fails a write that makes no progress for `limit`. Reads have the header and body timeouts.
pub(super) struct WriteTimeout<S> {
    stream: S,
    limit: Duration,
    deadline: Pin<Box<Sleep>>,
    waiting: bool,
}

impl<S> WriteTimeout<S> {
    pub(super) fn new(stream: S, limit: Duration) -> WriteTimeout<S> {
        WriteTimeout {
            stream,
            limit,
            deadline: Box::pin(tokio::time::sleep(limit)),
            waiting: false,
        }
    }

    /// Returns a result unchanged; the timeout runs only while the write is pending.
    fn apply_timeout<T>(
        &mut self,
        cx: &mut Context<'_>,
        result: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if result.is_ready() {
            self.waiting = false;
            return result;
        }
        if !self.waiting {
            self.waiting = true;
            self.deadline.as_mut().reset(Instant::now() + self.limit);
        }
        ready!(self.deadline.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.apply_timeout(cx, result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.apply_timeout(cx, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_flush(cx);
        self.apply_timeout(cx, result)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.apply_timeout(cx, result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;

    #[tokio::test]
    async fn a_write_fails_when_the_peer_never_reads() {
        let (ours, _theirs) = tokio::io::duplex(16);
        let mut stream = WriteTimeout::new(ours, Duration::from_millis(10));
        let error = stream.write_all(&[0; 64]).await.expect_err("the peer does not read");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
