//! Frames on a guest's byte stream. Bounds every length before allocating; knows no order of
//! messages.

use std::pin::Pin;

use bytes::{Buf, BytesMut};
use guest::frame::{self, FrameError, HEADER, MAX_FROM_GUEST, MAX_TO_GUEST};
use guest::protocol::{FromGuest, ToGuest};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};

/// Most guests say little; the buffer grows to one whole frame when they say more.
const FIRST_READ: usize = 8 * 1024;

/// The job is written in pieces of about this size.
const WRITE_SIZE: usize = 128 * 1024;

pub trait Duplex: AsyncRead + AsyncWrite + Send {}
impl<T: AsyncRead + AsyncWrite + Send> Duplex for T {}

type Stream = Pin<Box<dyn Duplex>>;

/// Both halves of the stream to one guest.
pub fn split(stream: impl Duplex + 'static) -> (Receiver, Sender) {
    let (read, write) = tokio::io::split(Box::pin(stream) as Stream);
    (Receiver { read, buffer: BytesMut::new(), consumed: 0 }, Sender { write, buffer: Vec::new() })
}

/// Reads frames. At most one frame and what happened to come with it is held.
pub struct Receiver {
    read: ReadHalf<Stream>,
    buffer: BytesMut,
    /// The length of the frame that was handed out last, still at the front of the buffer.
    consumed: usize,
}

/// A whole frame is in the buffer, with a body of this length.
pub struct Whole(usize);

impl Receiver {
    /// Waits for a whole frame; `None` when the stream ended, broke, or broke off inside a frame.
    /// Nothing is lost when the future is dropped before it is ready.
    pub async fn next(&mut self) -> Result<Option<Whole>, FrameError> {
        self.buffer.advance(std::mem::take(&mut self.consumed));
        loop {
            let needed = match self.buffer.first_chunk::<HEADER>() {
                None => HEADER,
                Some(&header) => {
                    let length = frame::body_length(header, MAX_FROM_GUEST)?;
                    if self.buffer.len() >= HEADER + length {
                        return Ok(Some(Whole(length)));
                    }
                    HEADER + length
                }
            };
            self.buffer.reserve(FIRST_READ.max(needed - self.buffer.len()));
            match self.read.read_buf(&mut self.buffer).await {
                Ok(0) | Err(_) => return Ok(None),
                Ok(_) => {}
            }
        }
    }

    /// The message of a frame that `next` announced.
    pub fn message(&mut self, Whole(length): Whole) -> Result<FromGuest<'_>, FrameError> {
        self.consumed = HEADER + length;
        frame::decode(&self.buffer[HEADER..HEADER + length])
    }
}

/// Writes frames, gathered into large writes.
pub struct Sender {
    write: WriteHalf<Stream>,
    buffer: Vec<u8>,
}

/// Why a message could not be sent.
pub enum SendError {
    /// The message itself is too long for a frame.
    Frame(FrameError),
    /// The guest does not listen any more.
    Gone,
}

impl Sender {
    /// Queues a message, writing when enough has gathered.
    pub async fn send(&mut self, message: &ToGuest<'_>) -> Result<(), SendError> {
        frame::encode(message, MAX_TO_GUEST, &mut self.buffer).map_err(SendError::Frame)?;
        if self.buffer.len() >= WRITE_SIZE { self.flush().await } else { Ok(()) }
    }

    /// Writes what has gathered, and keeps no memory for more of it: little follows a job.
    pub async fn finish(&mut self) -> Result<(), SendError> {
        self.flush().await?;
        self.buffer = Vec::new();
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), SendError> {
        self.write.write_all(&self.buffer).await.map_err(|_| SendError::Gone)?;
        self.buffer.clear();
        self.write.flush().await.map_err(|_| SendError::Gone)
    }
}
