//! The stream to the host, with buffers of bounded size.
//!
//! A host that went away, or that does not speak the protocol, is the end of this process: nothing here returns
//! an error.

use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

use guest::frame::{self, CHUNK, HEADER, MAX_FROM_GUEST, MAX_TO_GUEST};
use guest::jail::CHANNEL_FD;
use guest::protocol::{FromGuest, ToGuest};
use rustix::io::{FdFlags, fcntl_setfd, read, retry_on_intr, write};

/// The size of the buffer until a longer frame comes: one whole chunk and its header.
const INPUT: usize = CHUNK + 4096;

pub struct Channel {
    stream: OwnedFd,
    /// Bytes received and not yet handed out are at `start..end`.
    input: Vec<u8>,
    start: usize,
    end: usize,
    output: Vec<u8>,
}

impl Channel {
    pub fn open() -> Self {
        // SAFETY: whoever started this process left the stream on this descriptor, and nobody else here owns it.
        let stream = unsafe { OwnedFd::from_raw_fd(CHANNEL_FD) };
        if fcntl_setfd(&stream, FdFlags::CLOEXEC).is_err() {
            end();
        }
        Channel { stream, input: vec![0; INPUT], start: 0, end: 0, output: touched(HEADER + MAX_FROM_GUEST) }
    }

    /// Sends one message, waiting as long as the host takes to read.
    pub fn send(&mut self, message: &FromGuest<'_>) {
        self.output.clear();
        if frame::encode(message, MAX_FROM_GUEST, &mut self.output).is_err() {
            end();
        }
        let mut rest = &self.output[..];
        while !rest.is_empty() {
            match retry_on_intr(|| write(&self.stream, rest)) {
                Ok(written) => rest = &rest[written..],
                Err(_) => end(),
            }
        }
    }

    /// Waits for one message.
    pub fn receive(&mut self) -> ToGuest<'_> {
        let length = loop {
            match self.whole_frame() {
                Some(length) => break length,
                None => self.fill(),
            }
        };
        let body = self.start + HEADER;
        self.start = body + length;
        frame::decode(&self.input[body..body + length]).unwrap_or_else(|_| end())
    }

    /// Whether the host said to stop. To be asked before waiting for the stream: it may be here already.
    pub fn stop_received(&mut self) -> bool {
        if self.whole_frame().is_none() {
            return false;
        }
        match self.receive() {
            ToGuest::Stop => true,
            _ => end(),
        }
    }

    /// Takes what the stream has; to be called when it is readable.
    pub fn fill(&mut self) {
        self.make_room();
        match retry_on_intr(|| read(&self.stream, &mut self.input[self.end..])) {
            Ok(0) | Err(_) => end(),
            Ok(count) => self.end += count,
        }
    }

    /// Waits until the host is gone.
    pub fn wait_for_end(&mut self) -> ! {
        loop {
            self.start = self.end;
            self.fill();
        }
    }

    /// The length of the body, when a whole frame is here.
    fn whole_frame(&self) -> Option<usize> {
        let here = &self.input[self.start..self.end];
        let header = here.first_chunk::<HEADER>()?;
        let length = frame::body_length(*header, MAX_TO_GUEST).unwrap_or_else(|_| end());
        (here.len() >= HEADER + length).then_some(length)
    }

    /// Moves what is here to the front, and makes the buffer as long as the frame that is coming.
    fn make_room(&mut self) {
        self.input.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if let Some(header) = self.input[..self.end].first_chunk::<HEADER>() {
            let length = frame::body_length(*header, MAX_TO_GUEST).unwrap_or_else(|_| end());
            if self.input.len() < HEADER + length {
                self.input.resize(HEADER + length, 0);
            }
        }
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Ends this process and with it every other one in the sandbox.
pub fn end() -> ! {
    std::process::exit(1);
}

/// An empty buffer whose pages are already there, for when no more memory can be had.
fn touched(capacity: usize) -> Vec<u8> {
    let mut buffer = vec![1; capacity];
    buffer.clear();
    buffer
}
