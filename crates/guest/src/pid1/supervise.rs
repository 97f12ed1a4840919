//! Supervises the running script: forwards its logs, receives messages from the host, reaps
//! orphans, enforces limits, and returns when every process is dead.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use guest::frame::CHUNK;
use guest::protocol::{ExitReport, ExitStatus, FromGuest, OutputStream};
use rustix::io::{read, retry_on_intr};

use super::channel::Channel;
use super::disk_usage::DiskUsage;
use super::kernel::{self, Reaped};
use super::process::RunningScript;
use super::process_limit::ProcessLimit;
use super::syscall_listener::SyscallListener;

/// The longest wait between samples, so that a full file system is detected while it is full.
const MAX_POLL_WAIT: Duration = Duration::from_millis(50);

/// How many children to reap before serving the host again: a fork bomb produces dead children
/// faster than they can be reaped.
const MAX_REAPS_PER_TICK: usize = 256;

/// Runs until the script exits, exceeds a limit, or the host requests a stop; then kills and reaps
/// every process and forwards the remaining log bytes.
pub(super) fn supervise(
    host: &mut Channel,
    script: RunningScript,
    logs: &mut LogForwarder,
    (disk_usage, process_limit, mut syscalls): (
        &mut DiskUsage,
        &mut ProcessLimit,
        Option<&mut SyscallListener>,
    ),
) -> ExitReport {
    let pid = script.pid;
    let mut pipes = log_pipes(script);
    let mut reaped = ReapedBatch { script_status: None, more: false };
    // A stop request may already be buffered, so it is checked before each wait.
    while reaped.script_status.is_none()
        && !host.is_stop_requested()
        && !disk_usage.is_over_limit()
        && !process_limit.is_exceeded()
        && !syscalls.as_deref().is_some_and(SyscallListener::is_over_memory_limit)
    {
        let (first, second) =
            (pipes.first().and_then(LogPipe::poll_fd), pipes.get(1).and_then(LogPipe::poll_fd));
        let listener = syscalls.as_deref().map(SyscallListener::as_fd);
        let mut ready =
            [readable(Some(host.as_fd())), readable(first), readable(second), readable(listener)];
        let interval = process_limit.sample_interval().unwrap_or(MAX_POLL_WAIT);
        kernel::poll(&mut ready, if reaped.more { Duration::ZERO } else { interval });
        if ready[0].revents != 0 {
            host.fill();
        }
        for (pipe, ready) in pipes.iter_mut().zip(&ready[1..]) {
            if ready.revents != 0 {
                logs.forward(host, pipe);
            }
        }
        if ready[3].revents != 0
            && let Some(syscalls) = &mut syscalls
        {
            syscalls.handle_notification(host);
        }
        reaped = reap_batch(pid);
        disk_usage.sample();
        process_limit.sample();
    }
    let killed = kernel::kill_all_and_reap(Some(pid));
    // No writer is left, so the pipes run empty. They are non-blocking: a descriptor of the pipe
    // that is still open in a message in flight must not make this wait.
    for pipe in &mut pipes {
        while logs.forward(host, pipe) {}
    }
    ExitReport {
        // One of the two is set: only this process can reap the script.
        status: reaped.script_status.or(killed).unwrap_or(ExitStatus::Signal(libc::SIGKILL)),
        disk_full: disk_usage.was_full(),
        log_bytes_dropped: logs.dropped,
        counters: None,
    }
}

/// Forwards the script's logs up to a limit and drops the rest.
pub(super) struct LogForwarder {
    budget: u64,
    dropped: u64,
    buffer: Vec<u8>,
}

impl LogForwarder {
    pub(super) fn new(budget: u64) -> Self {
        // Filled with a non-zero value, so that its pages are allocated before the script uses up
        // all memory.
        LogForwarder { budget, dropped: 0, buffer: vec![1; CHUNK] }
    }

    /// The buffer, for reuse once the logs are complete.
    pub(super) fn buffer(&mut self) -> &mut [u8] {
        &mut self.buffer
    }

    /// Forwards or drops the available bytes of the pipe; false when there are none. The pipe is
    /// drained even above the limit, because a full pipe would block the script.
    fn forward(&mut self, host: &mut Channel, pipe: &mut LogPipe) -> bool {
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

/// Our end of one pipe from the script.
struct LogPipe {
    stream: OutputStream,
    end: OwnedFd,
    at_end: bool,
}

impl LogPipe {
    /// The descriptor to poll, unless the pipe is at its end, where it would always be ready.
    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        (!self.at_end).then(|| self.end.as_fd())
    }
}

fn log_pipes(script: RunningScript) -> Vec<LogPipe> {
    let pipe = |stream, end| LogPipe { stream, end, at_end: false };
    match script.stderr {
        None => vec![pipe(OutputStream::Merged, script.stdout)],
        Some(stderr) => {
            vec![pipe(OutputStream::Stdout, script.stdout), pipe(OutputStream::Stderr, stderr)]
        }
    }
}

/// A poll entry; the kernel ignores entries with a negative descriptor.
fn readable(fd: Option<BorrowedFd<'_>>) -> libc::pollfd {
    libc::pollfd { fd: fd.map_or(-1, |fd| fd.as_raw_fd()), events: libc::POLLIN, revents: 0 }
}

/// The result of reaping one batch of children.
struct ReapedBatch {
    /// How the script ended, if it was among the reaped children.
    script_status: Option<ExitStatus>,
    /// More dead children may be waiting.
    more: bool,
}

fn reap_batch(script: i32) -> ReapedBatch {
    for _ in 0..MAX_REAPS_PER_TICK {
        match kernel::reap() {
            Reaped::Child { pid, status } if pid == script => {
                return ReapedBatch { script_status: Some(status), more: true };
            }
            Reaped::Child { .. } => {}
            Reaped::NoneDead | Reaped::NoChildren => {
                return ReapedBatch { script_status: None, more: false };
            }
        }
    }
    ReapedBatch { script_status: None, more: true }
}
