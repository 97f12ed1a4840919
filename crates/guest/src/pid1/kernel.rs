//! System calls for signals, children and process visibility that neither the standard library nor
//! rustix offers. The other unsafe code of PID 1 is in `process`, and where inherited descriptors
//! are taken over.

use std::ptr;
use std::time::Duration;

use guest::jail::Counters;
use guest::protocol::ExitStatus;
use rustix::io::Errno;

/// How long to wait for killed children before checking again.
const REAP_POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Makes `/proc/1` owned by root, so that a script of the same user can neither open the memory or
/// the descriptors of this process nor trace it.
pub(super) fn hide_from_same_user() -> Result<(), Errno> {
    // SAFETY: this prctl takes a number and touches no memory.
    let done = unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) };
    if done == 0 { Ok(()) } else { Err(last_errno()) }
}

/// Whether a socket of this family can be created. It is closed immediately.
pub(super) fn can_open_socket(family: i32) -> bool {
    // SAFETY: `socket` touches no memory, and no other value owns the returned descriptor.
    unsafe {
        let socket = libc::socket(family, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0);
        socket >= 0 && libc::close(socket) == 0
    }
}

/// Marks all descriptors from this number on to be closed on exec.
pub(super) fn close_on_exec_from(first: i32) {
    // SAFETY: with this flag no descriptor is closed now, so all owned descriptors stay valid.
    unsafe {
        libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC)
    };
}

/// From now on the end of a child interrupts `poll`, and no other system call.
pub(super) fn interrupt_poll_on_child_exit() {
    extern "C" fn ignore(_: libc::c_int) {}
    // SAFETY: the handler does nothing, so it is async-signal-safe; all structures are plain
    // locals.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = ignore as extern "C" fn(libc::c_int) as usize;
        libc::sigaction(libc::SIGCHLD, &raw const action, ptr::null_mut());
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        libc::sigprocmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut());
    }
}

/// Waits until a descriptor is ready, a child ends, or the timeout expires.
pub(super) fn poll(fds: &mut [libc::pollfd], at_most: Duration) {
    let time = libc::timespec {
        tv_sec: at_most.as_secs() as libc::time_t,
        tv_nsec: libc::c_long::from(at_most.subsec_nanos()),
    };
    // SAFETY: the array and both structures outlive the call; an all-zero signal set is the empty
    // one.
    unsafe {
        let no_signals: libc::sigset_t = std::mem::zeroed();
        if libc::ppoll(
            fds.as_mut_ptr(),
            fds.len() as libc::nfds_t,
            &raw const time,
            &raw const no_signals,
        ) < 0
        {
            // When interrupted, the kernel has not written `revents`.
            fds.iter_mut().for_each(|fd| fd.revents = 0);
        }
    }
}

/// The result of reaping without waiting.
pub(super) enum Reaped {
    Child {
        pid: i32,
        status: ExitStatus,
    },
    /// There are children, and none of them is dead.
    NoneDead,
    /// There is no other process in the sandbox.
    NoChildren,
}

/// Reaps one dead child without waiting. As PID 1, this process inherits every orphan.
pub(super) fn reap() -> Reaped {
    let mut status = 0;
    // SAFETY: the pointer is to a live local.
    match unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) } {
        0 => Reaped::NoneDead,
        -1 => Reaped::NoChildren,
        pid if libc::WIFSIGNALED(status) => {
            Reaped::Child { pid, status: ExitStatus::Signal(libc::WTERMSIG(status)) }
        }
        pid => Reaped::Child { pid, status: ExitStatus::Code(libc::WEXITSTATUS(status)) },
    }
}

/// Kills and reaps every other process; returns the status of `script` if it was among them.
///
/// One `kill(-1)` reaches every process that is alive at that moment, but a fork that had already
/// passed its check for pending signals may add one more. It is therefore repeated until this
/// process has no children left.
pub(super) fn kill_all_and_reap(script: Option<i32>) -> Option<ExitStatus> {
    let mut script_status = None;
    loop {
        // SAFETY: kill touches no memory, and -1 does not reach this process, the first of its
        // namespace.
        unsafe { libc::kill(-1, libc::SIGKILL) };
        loop {
            match reap() {
                Reaped::Child { pid, status } if Some(pid) == script => {
                    script_status = Some(status)
                }
                Reaped::Child { .. } => {}
                Reaped::NoneDead => break,
                Reaped::NoChildren => return script_status,
            }
        }
        poll(&mut [], REAP_POLL_INTERVAL);
    }
}

/// The resources that reaped children used, for where no cgroup counts them: the CPU time of all of
/// them, and the memory of the largest.
pub(super) fn children_rusage() -> Counters {
    // SAFETY: the structure is plain, lives here, and all of it may be zero.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    };
    let micros = |time: libc::timeval| {
        time.tv_sec.cast_unsigned() * 1_000_000 + time.tv_usec.cast_unsigned()
    };
    Counters {
        cpu_micros: micros(usage.ru_utime) + micros(usage.ru_stime),
        peak_memory_bytes: usage.ru_maxrss.cast_unsigned() * 1024,
        ..Counters::default()
    }
}

pub(super) fn last_errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}
