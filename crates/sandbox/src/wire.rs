//! Frames on a guest's byte stream. Checks every length before allocating; does not know the order
//! of messages.

use std::pin::Pin;

use bytes::{Buf, BytesMut};
use guest::frame::{self, FrameError, HEADER, MAX_FROM_GUEST, MAX_TO_GUEST};
use guest::protocol::{FromGuest, ToGuest};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};

/// The minimum buffer space per read. Most guests send little; the buffer grows to one whole frame
/// when they send more.
const MIN_READ_BYTES: usize = 8 * 1024;

/// The approximate size of one write while sending a job.
const WRITE_BUFFER_BYTES: usize = 128 * 1024;

pub(crate) trait Duplex: AsyncRead + AsyncWrite + Send {}
impl<T: AsyncRead + AsyncWrite + Send> Duplex for T {}

type BoxedDuplex = Pin<Box<dyn Duplex>>;

/// Both halves of the stream to one guest.
pub(crate) fn split(stream: impl Duplex + 'static) -> (Receiver, Sender) {
    let (read, write) = tokio::io::split(Box::pin(stream) as BoxedDuplex);
    (Receiver { read, buffer: BytesMut::new(), consumed: 0 }, Sender { write, buffer: Vec::new() })
}

/// Reads frames. Buffers at most one frame plus what a read returned beyond it.
pub(crate) struct Receiver {
    read: ReadHalf<BoxedDuplex>,
    buffer: BytesMut,
    /// The length of the last decoded frame, which is still at the front of the buffer because its
    /// message borrows it.
    consumed: usize,
}

/// Proof that a whole frame is in the buffer; its value is the length of the body.
pub(crate) struct FrameReady(usize);

impl Receiver {
    /// Waits for a whole frame; `None` when the stream ended, failed, or broke off inside of a
    /// frame. Cancel-safe: no byte is lost when the future is dropped.
    pub(crate) async fn next(&mut self) -> Result<Option<FrameReady>, FrameError> {
        self.buffer.advance(std::mem::take(&mut self.consumed));
        loop {
            let needed = match self.buffer.first_chunk::<HEADER>() {
                None => HEADER,
                Some(&header) => {
                    // Checked before the reservation below: the length comes from the guest.
                    let length = frame::body_length(header, MAX_FROM_GUEST)?;
                    if self.buffer.len() >= HEADER + length {
                        return Ok(Some(FrameReady(length)));
                    }
                    HEADER + length
                }
            };
            self.buffer.reserve(MIN_READ_BYTES.max(needed - self.buffer.len()));
            match self.read.read_buf(&mut self.buffer).await {
                Ok(0) | Err(_) => return Ok(None),
                Ok(_) => {}
            }
        }
    }

    /// Decodes the frame that `next` returned.
    pub(crate) fn message(
        &mut self,
        FrameReady(length): FrameReady,
    ) -> Result<FromGuest<'_>, FrameError> {
        self.consumed = HEADER + length;
        frame::decode(&self.buffer[HEADER..HEADER + length])
    }
}

/// Writes frames, combined into large writes.
pub(crate) struct Sender {
    write: WriteHalf<BoxedDuplex>,
    buffer: Vec<u8>,
}

/// Why a message could not be sent.
pub(crate) enum SendFailure {
    /// The message is too long for a frame.
    Frame(FrameError),
    /// The guest has disconnected.
    Disconnected,
}

impl Sender {
    /// Buffers a message, and writes the buffer when it is full.
    pub(crate) async fn send(&mut self, message: &ToGuest<'_>) -> Result<(), SendFailure> {
        frame::encode(message, MAX_TO_GUEST, &mut self.buffer).map_err(SendFailure::Frame)?;
        if self.buffer.len() >= WRITE_BUFFER_BYTES { self.flush().await } else { Ok(()) }
    }

    /// Writes the buffer and frees it: after a job, only a stop request may follow.
    pub(crate) async fn finish(&mut self) -> Result<(), SendFailure> {
        self.flush().await?;
        self.buffer = Vec::new();
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), SendFailure> {
        self.write.write_all(&self.buffer).await.map_err(|_| SendFailure::Disconnected)?;
        self.buffer.clear();
        self.write.flush().await.map_err(|_| SendFailure::Disconnected)
    }
}
