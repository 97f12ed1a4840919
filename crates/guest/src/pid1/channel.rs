//! The stream to the host, with buffers of bounded size.
//!
//! A host that went away, or that does not speak the protocol, is the end of this process: nothing
//! here returns an error.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use guest::frame::{self, CHUNK, HEADER, MAX_FROM_GUEST, MAX_TO_GUEST};
use guest::jail::CHANNEL_FD;
use guest::protocol::{FromGuest, ToGuest};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, FdFlags, fcntl_dupfd_cloexec, fcntl_setfd, read, retry_on_intr, write};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout, stdin, stdout};

use super::kernel;

/// The size of the buffer until a longer frame comes: one whole chunk and its header.
const INPUT: usize = CHUNK + 4096;

/// A host that wanted this sandbox has said something by then. One that died before its connection
/// was made has left nobody whose going away would be the end of it.
const FIRST_WORD: Duration = Duration::from_secs(300);

pub struct Channel {
    from_host: OwnedFd,
    to_host: OwnedFd,
    /// Bytes received and not yet handed out are at `start..end`.
    input: Vec<u8>,
    start: usize,
    end: usize,
    output: Vec<u8>,
}

impl Channel {
    /// The stream that a launcher left for this process.
    pub fn on_socket() -> Self {
        // SAFETY: whoever started this process left the stream on this descriptor, and nobody else
        // here owns it.
        let stream = unsafe { OwnedFd::from_raw_fd(CHANNEL_FD) };
        match (fcntl_setfd(&stream, FdFlags::CLOEXEC), fcntl_dupfd_cloexec(&stream, CHANNEL_FD)) {
            (Ok(()), Ok(copy)) => Channel::new(stream, copy),
            _ => end(),
        }
    }

    /// The standard streams of a container, which from then on lead nowhere.
    pub fn on_standard_streams() -> Self {
        let moved = || {
            let from_host = fcntl_dupfd_cloexec(stdin(), CHANNEL_FD)?;
            let to_host = fcntl_dupfd_cloexec(stdout(), CHANNEL_FD)?;
            let null = open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
            dup2_stdin(&null)?;
            dup2_stdout(&null)?;
            dup2_stderr(&null)?;
            Ok::<_, Errno>((from_host, to_host))
        };
        match moved() {
            Ok((from_host, to_host)) => Channel::new(from_host, to_host),
            Err(_) => end(),
        }
    }

    fn new(from_host: OwnedFd, to_host: OwnedFd) -> Self {
        let (input, output) = (vec![0; INPUT], touched(HEADER + MAX_FROM_GUEST));
        Channel { from_host, to_host, input, start: 0, end: 0, output }
    }

    /// Sends one message, waiting as long as the host takes to read.
    pub fn send(&mut self, message: &FromGuest<'_>) {
        self.output.clear();
        if frame::encode(message, MAX_FROM_GUEST, &mut self.output).is_err() {
            end();
        }
        let mut rest = &self.output[..];
        while !rest.is_empty() {
            match retry_on_intr(|| write(&self.to_host, rest)) {
                Ok(written) => rest = &rest[written..],
                Err(_) => end(),
            }
        }
    }

    /// Waits for the host to say anything, and not for ever.
    pub fn wait_for_first_word(&self) {
        let mut ready =
            [libc::pollfd { fd: self.from_host.as_raw_fd(), events: libc::POLLIN, revents: 0 }];
        kernel::poll(&mut ready, FIRST_WORD);
        if ready[0].revents == 0 {
            end();
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

    /// Whether the host said to stop. To be asked before waiting for the stream: it may be here
    /// already.
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
        match retry_on_intr(|| read(&self.from_host, &mut self.input[self.end..])) {
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
        self.from_host.as_fd()
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
