//! The stream to the host, with buffers of bounded size.
//!
//! No function returns an error: this process exits when the host disconnects or violates the
//! protocol.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use guest::frame::{self, CHUNK, HEADER, MAX_FROM_GUEST, MAX_TO_GUEST};
use guest::jail::CHANNEL_FD;
use guest::protocol::{FromGuest, ToGuest};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, FdFlags, fcntl_dupfd_cloexec, fcntl_setfd, read, retry_on_intr, write};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout, stdin, stdout};

use super::kernel;

/// The initial size of the input buffer: one whole chunk and its header. It grows for longer
/// frames.
const INPUT_BYTES: usize = CHUNK + 4096;

/// How long to wait for the first message. If the host dies before it attaches to the container, no
/// disconnect ever ends this process, so it must end itself.
const FIRST_MESSAGE_TIMEOUT: Duration = Duration::from_secs(300);

pub(super) struct Channel {
    from_host: OwnedFd,
    to_host: OwnedFd,
    /// Received bytes that are not yet consumed are at `start..end`.
    input: Vec<u8>,
    start: usize,
    end: usize,
    output: Vec<u8>,
}

impl Channel {
    /// Takes over the stream that the launcher passed to this process.
    pub(super) fn on_socket() -> Self {
        // SAFETY: the launcher passed the stream on this descriptor, and no other value owns it.
        let stream = unsafe { OwnedFd::from_raw_fd(CHANNEL_FD) };
        match (fcntl_setfd(&stream, FdFlags::CLOEXEC), fcntl_dupfd_cloexec(&stream, CHANNEL_FD)) {
            (Ok(()), Ok(copy)) => Channel::new(stream, copy),
            _ => exit_guest(),
        }
    }

    /// Takes over the standard streams of a container and replaces them with /dev/null, so that no
    /// script inherits them.
    pub(super) fn on_standard_streams() -> Self {
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
            Err(_) => exit_guest(),
        }
    }

    fn new(from_host: OwnedFd, to_host: OwnedFd) -> Self {
        let (input, output) = (vec![0; INPUT_BYTES], preallocated(HEADER + MAX_FROM_GUEST));
        Channel { from_host, to_host, input, start: 0, end: 0, output }
    }

    /// Sends one message. Blocks until the host has read enough.
    pub(super) fn send(&mut self, message: &FromGuest<'_>) {
        self.output.clear();
        if frame::encode(message, MAX_FROM_GUEST, &mut self.output).is_err() {
            exit_guest();
        }
        let mut rest = &self.output[..];
        while !rest.is_empty() {
            match retry_on_intr(|| write(&self.to_host, rest)) {
                Ok(written) => rest = &rest[written..],
                Err(_) => exit_guest(),
            }
        }
    }

    /// Waits for the first bytes from the host, with a timeout.
    pub(super) fn wait_for_first_message(&self) {
        let mut ready =
            [libc::pollfd { fd: self.from_host.as_raw_fd(), events: libc::POLLIN, revents: 0 }];
        kernel::poll(&mut ready, FIRST_MESSAGE_TIMEOUT);
        if ready[0].revents == 0 {
            exit_guest();
        }
    }

    /// Waits for one message.
    pub(super) fn receive(&mut self) -> ToGuest<'_> {
        let length = loop {
            match self.whole_frame() {
                Some(length) => break length,
                None => self.fill(),
            }
        };
        let body = self.start + HEADER;
        self.start = body + length;
        frame::decode(&self.input[body..body + length]).unwrap_or_else(|_| exit_guest())
    }

    /// Whether a stop request is in the buffer. Must be checked before polling the stream, which is
    /// not readable when all its bytes are already buffered.
    pub(super) fn is_stop_requested(&mut self) -> bool {
        if self.whole_frame().is_none() {
            return false;
        }
        match self.receive() {
            ToGuest::Stop => true,
            _ => exit_guest(),
        }
    }

    /// Reads available bytes into the buffer. Call it when the stream is readable.
    pub(super) fn fill(&mut self) {
        self.reserve_frame();
        match retry_on_intr(|| read(&self.from_host, &mut self.input[self.end..])) {
            Ok(0) | Err(_) => exit_guest(),
            Ok(count) => self.end += count,
        }
    }

    /// Waits until the host disconnects.
    pub(super) fn wait_for_disconnect(&mut self) -> ! {
        loop {
            self.start = self.end;
            self.fill();
        }
    }

    /// The body length of the next frame, if the whole frame is buffered.
    fn whole_frame(&self) -> Option<usize> {
        let buffered = &self.input[self.start..self.end];
        let header = buffered.first_chunk::<HEADER>()?;
        let length = frame::body_length(*header, MAX_TO_GUEST).unwrap_or_else(|_| exit_guest());
        (buffered.len() >= HEADER + length).then_some(length)
    }

    /// Moves buffered bytes to the front, and grows the buffer for the frame that is being
    /// received.
    fn reserve_frame(&mut self) {
        self.input.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if let Some(header) = self.input[..self.end].first_chunk::<HEADER>() {
            let length = frame::body_length(*header, MAX_TO_GUEST).unwrap_or_else(|_| exit_guest());
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

/// Exits this process. The kernel then kills every other process of the pid namespace.
pub(super) fn exit_guest() -> ! {
    std::process::exit(1);
}

/// An empty buffer whose pages are allocated, so that it can be used when memory is exhausted.
fn preallocated(capacity: usize) -> Vec<u8> {
    let mut buffer = vec![1; capacity];
    buffer.clear();
    buffer
}
