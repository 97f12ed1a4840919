//! Signals, children and hiding: what neither the standard library nor rustix offers. The unsafe
//! code of PID 1 is here, in `process` and where the stream is taken over.

use std::ptr;
use std::time::Duration;

use guest::jail::Counters;
use guest::protocol::ExitStatus;
use rustix::io::Errno;

/// How long one look at the dying is at most.
const BURYING: Duration = Duration::from_millis(10);

/// Makes `/proc/1` belong to root, so that a script of the same user can open neither the memory
/// nor the descriptors of this process, and cannot trace it.
pub fn hide_from_same_user() -> Result<(), Errno> {
    // SAFETY: this prctl takes a number and touches no memory.
    let done = unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) };
    if done == 0 { Ok(()) } else { Err(last_errno()) }
}

/// Whether a socket of this family can be had; it is closed at once.
pub fn can_open_socket(family: i32) -> bool {
    // SAFETY: `socket` touches no memory, and the descriptor it hands back is ours alone.
    unsafe {
        let socket = libc::socket(family, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0);
        socket >= 0 && libc::close(socket) == 0
    }
}

/// Lets no program that is executed inherit a descriptor from this number on.
pub fn close_on_exec_from(first: i32) {
    // SAFETY: with this flag no descriptor is closed now, so no owner is surprised.
    unsafe {
        libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC)
    };
}

/// From now on `poll` is interrupted when a child ends, and nothing else is.
pub fn watch_children() {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: the handler does nothing, so it is safe at any moment; all structures are plain and
    // live here.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as usize;
        libc::sigaction(libc::SIGCHLD, &raw const action, ptr::null_mut());
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        libc::sigprocmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut());
    }
}

/// Waits until a descriptor is ready, a child ends, or the time is over.
pub fn poll(fds: &mut [libc::pollfd], at_most: Duration) {
    let time = libc::timespec {
        tv_sec: at_most.as_secs() as libc::time_t,
        tv_nsec: libc::c_long::from(at_most.subsec_nanos()),
    };
    // SAFETY: the array and both structures outlive the call; an all-zero signal set is the empty
    // one.
    unsafe {
        let nothing_blocked: libc::sigset_t = std::mem::zeroed();
        if libc::ppoll(
            fds.as_mut_ptr(),
            fds.len() as libc::nfds_t,
            &raw const time,
            &raw const nothing_blocked,
        ) < 0
        {
            // After an interruption the kernel has not written what is ready.
            fds.iter_mut().for_each(|fd| fd.revents = 0);
        }
    }
}

/// One child that ended, if there is one.
pub enum Reaped {
    Child {
        pid: i32,
        status: ExitStatus,
    },
    /// There are children and all of them live.
    Living,
    /// There is no other process.
    Alone,
}

/// Buries one dead child without waiting.
pub fn reap() -> Reaped {
    let mut status = 0;
    // SAFETY: the pointer is to a live local.
    match unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) } {
        0 => Reaped::Living,
        -1 => Reaped::Alone,
        pid if libc::WIFSIGNALED(status) => {
            Reaped::Child { pid, status: ExitStatus::Signal(libc::WTERMSIG(status)) }
        }
        pid => Reaped::Child { pid, status: ExitStatus::Code(libc::WEXITSTATUS(status)) },
    }
}

/// Kills every other process and buries all of them; tells how `of_interest` ended if it was among
/// them.
///
/// One `kill(-1)` reaches everything alive at that moment, but a fork that was already past its
/// check for signals may add one more, so it is repeated until this process is alone.
pub fn bury_everything_and_tell(of_interest: i32) -> Option<ExitStatus> {
    let mut told = None;
    loop {
        // SAFETY: kill touches no memory, and -1 does not reach this process, the first of its
        // namespace.
        unsafe { libc::kill(-1, libc::SIGKILL) };
        loop {
            match reap() {
                Reaped::Child { pid, status } if pid == of_interest => told = Some(status),
                Reaped::Child { .. } => {}
                Reaped::Living => break,
                Reaped::Alone => return told,
            }
        }
        poll(&mut [], BURYING);
    }
}

/// What the buried took, where no control group counted it: the time of all, the memory of the
/// largest.
pub fn counted_for_the_dead() -> Counters {
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

/// Kills every other process and waits until this one is alone.
pub fn bury_everything() {
    bury_everything_and_tell(0);
}

pub fn last_errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}
