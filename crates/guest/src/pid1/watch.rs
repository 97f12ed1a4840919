//! Watches the running script: passes its logs on, hears the host, buries orphans, and ends with
//! everything dead.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use guest::frame::CHUNK;
use guest::protocol::{ExitReport, ExitStatus, FromGuest, OutputStream};
use rustix::io::{read, retry_on_intr};

use super::channel::Channel;
use super::crowd::Crowd;
use super::kernel::{self, Reaped};
use super::process::Running;
use super::scratch::Scratch;
use super::witness::Witness;

/// How long to sleep at most, so that a full file system is noticed while it is full.
const TICK: Duration = Duration::from_millis(50);

/// How many of the dead to bury before looking at the host again; a fork bomb makes more all the
/// time.
const FUNERALS: usize = 256;

/// Runs until the script ends, has written or started too much, or the host says stop, then until
/// every process is dead and every log byte sent.
pub fn watch(
    host: &mut Channel,
    running: Running,
    logs: &mut Logs,
    (scratch, crowd, mut witness): (&mut Scratch, &mut Crowd, Option<&mut Witness>),
) -> ExitReport {
    let pid = running.pid;
    let mut pipes = pipes(running);
    let mut funerals = Funerals { status: None, more: false };
    while funerals.status.is_none()
        && !host.stop_received()
        && !scratch.is_over_its_cap()
        && !crowd.is_too_large()
        && !witness.as_deref().is_some_and(Witness::saw_too_much_memory)
    {
        let (first, second) =
            (pipes.first().and_then(Pipe::open), pipes.get(1).and_then(Pipe::open));
        let calls = witness.as_deref().map(Witness::as_fd);
        let mut ready =
            [poll_for(Some(host.as_fd())), poll_for(first), poll_for(second), poll_for(calls)];
        kernel::poll(
            &mut ready,
            if funerals.more { Duration::ZERO } else { crowd.tick().unwrap_or(TICK) },
        );
        if ready[0].revents != 0 {
            host.fill();
        }
        for (pipe, ready) in pipes.iter_mut().zip(&ready[1..]) {
            if ready.revents != 0 {
                logs.pass_on(host, pipe);
            }
        }
        if ready[3].revents != 0
            && let Some(witness) = &mut witness
        {
            witness.look(host);
        }
        funerals = bury(pid);
        scratch.sample();
        crowd.sample();
    }
    let killed = kernel::bury_everything_and_tell(pid);
    // Nobody can write any more, so this comes to an end; a pipe that a dead process kept open is
    // no reason to wait.
    for pipe in &mut pipes {
        while logs.pass_on(host, pipe) {}
    }
    ExitReport {
        // It was one of the buried, unless somebody reaped it before us, which nobody else can.
        status: funerals.status.or(killed).unwrap_or(ExitStatus::Signal(libc::SIGKILL)),
        disk_full: scratch.was_full(),
        log_bytes_dropped: logs.dropped,
        counted: None,
    }
}

/// What may still be passed on of the script's logs.
pub struct Logs {
    budget: u64,
    dropped: u64,
    buffer: Vec<u8>,
}

impl Logs {
    pub fn new(budget: u64) -> Self {
        // Not zero, so that the pages are there before the script takes all memory.
        Logs { budget, dropped: 0, buffer: vec![1; CHUNK] }
    }

    /// The memory that log bytes went through, for whatever comes after them.
    pub fn buffer(&mut self) -> &mut [u8] {
        &mut self.buffer
    }

    /// Passes on, or drops, what the pipe has now; false when it has nothing.
    fn pass_on(&mut self, host: &mut Channel, pipe: &mut Pipe) -> bool {
        let count = match retry_on_intr(|| read(&pipe.end, &mut self.buffer[..])) {
            Ok(0) => {
                pipe.at_end = true;
                return false;
            }
            Ok(count) => count,
            Err(_) => return false,
        };
        let allowed = (count as u64).min(self.budget);
        self.budget -= allowed;
        self.dropped += count as u64 - allowed;
        if allowed > 0 {
            host.send(&FromGuest::Log {
                stream: pipe.stream,
                bytes: &self.buffer[..allowed as usize],
            });
        }
        true
    }
}

/// One pipe from the script.
struct Pipe {
    stream: OutputStream,
    end: OwnedFd,
    at_end: bool,
}

impl Pipe {
    fn open(&self) -> Option<BorrowedFd<'_>> {
        (!self.at_end).then(|| self.end.as_fd())
    }
}

fn pipes(running: Running) -> Vec<Pipe> {
    let pipe = |stream, end| Pipe { stream, end, at_end: false };
    match running.stderr {
        None => vec![pipe(OutputStream::Merged, running.stdout)],
        Some(stderr) => {
            vec![pipe(OutputStream::Stdout, running.stdout), pipe(OutputStream::Stderr, stderr)]
        }
    }
}

/// A negative descriptor is passed over by the kernel.
fn poll_for(fd: Option<BorrowedFd<'_>>) -> libc::pollfd {
    libc::pollfd { fd: fd.map_or(-1, |fd| fd.as_raw_fd()), events: libc::POLLIN, revents: 0 }
}

/// What a round of burying brought.
struct Funerals {
    /// How the script ended, if it was among the dead.
    status: Option<ExitStatus>,
    /// There may be more of the dead.
    more: bool,
}

fn bury(script: i32) -> Funerals {
    for _ in 0..FUNERALS {
        match kernel::reap() {
            Reaped::Child { pid, status } if pid == script => {
                return Funerals { status: Some(status), more: true };
            }
            Reaped::Child { .. } => {}
            Reaped::Living | Reaped::Alone => return Funerals { status: None, more: false },
        }
    }
    Funerals { status: None, more: true }
}
