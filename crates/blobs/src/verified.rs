//! A stream that verifies a hash while it is read. The last bytes are returned only when the hash
//! of all bytes is right, so a reader that reaches the end has verified data.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};
use tokio::io::{AsyncRead, ReadBuf};

pub(crate) struct VerifiedStream<R> {
    stream: R,
    remaining: u64,
    hash: Sha256,
    expected: String,
}

impl<R> VerifiedStream<R> {
    /// For a stream of `size` bytes; `expected` is lower-case hexadecimal.
    pub(crate) fn new(stream: R, size: u64, expected: String) -> VerifiedStream<R> {
        VerifiedStream { stream, remaining: size, hash: Sha256::new(), expected }
    }

    fn check(&mut self) -> io::Result<()> {
        let hash = HEXLOWER.encode(&std::mem::take(&mut self.hash).finalize());
        match hash == self.expected {
            true => Ok(()),
            false => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the blob is corrupt: its hash differs from the recorded one",
            )),
        }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for VerifiedStream<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.remaining == 0 || out.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let max = usize::try_from(self.remaining).unwrap_or(usize::MAX).min(out.remaining());
        let mut part = ReadBuf::new(out.initialize_unfilled_to(max));
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut part))?;
        let read = part.filled().len();
        if read == 0 {
            return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
        }
        self.hash.update(part.filled());
        self.remaining -= read as u64;
        // Before `advance`: on a mismatch the last bytes must not count as read.
        if self.remaining == 0 {
            self.check()?;
        }
        out.advance(read);
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    async fn read(bytes: &[u8], size: u64, expected: &[u8]) -> (Vec<u8>, io::Result<usize>) {
        let hash = HEXLOWER.encode(&Sha256::digest(expected));
        let mut read = Vec::new();
        let done = VerifiedStream::new(bytes, size, hash).read_to_end(&mut read).await;
        (read, done)
    }

    #[tokio::test]
    async fn last_bytes_are_returned_only_when_the_hash_matches() {
        let (bytes, done) = read(b"hello", 5, b"hello").await;
        assert_eq!((&bytes[..], done.expect("they fit")), (&b"hello"[..], 5));
        let (bytes, done) = read(b"hello and more", 5, b"hello").await;
        assert_eq!((&bytes[..], done.expect("no more is read")), (&b"hello"[..], 5));
        let (bytes, done) = read(b"hellO", 5, b"hello").await;
        assert_eq!(
            (&bytes[..], done.expect_err("other bytes").kind()),
            (&b""[..], io::ErrorKind::InvalidData)
        );
        let (_, done) = read(b"hell", 5, b"hello").await;
        assert_eq!(done.expect_err("too short").kind(), io::ErrorKind::UnexpectedEof);
        let (_, done) = read(b"", 0, b"").await;
        assert_eq!(done.expect("nothing is nothing"), 0);
    }
}
