//! A stream whose bytes are compared with a hash on their way: the last ones are let through only
//! when all of them fit.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};
use tokio::io::{AsyncRead, ReadBuf};

pub(crate) struct VerifiedStream<R> {
    stream: R,
    /// How many bytes are still to come.
    left: u64,
    hash: Sha256,
    expected: String,
}

impl<R> VerifiedStream<R> {
    /// Of a stream that has `size` bytes; `expected` is lower-case hexadecimal.
    pub fn new(stream: R, size: u64, expected: String) -> VerifiedStream<R> {
        VerifiedStream { stream, left: size, hash: Sha256::new(), expected }
    }

    fn check(&mut self) -> io::Result<()> {
        let hash = HEXLOWER.encode(&std::mem::take(&mut self.hash).finalize());
        match hash == self.expected {
            true => Ok(()),
            false => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the stored bytes are not those that were stored",
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
        if self.left == 0 || out.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(out.remaining());
        let mut part = ReadBuf::new(out.initialize_unfilled_to(most));
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut part))?;
        let read = part.filled().len();
        if read == 0 {
            return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
        }
        self.hash.update(part.filled());
        self.left -= read as u64;
        if self.left == 0 {
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
    async fn the_last_bytes_come_only_when_all_of_them_fit() {
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
