//! Starts the script. Everything is prepared before the fork; the child only makes system calls, so
//! that it needs no memory and reports each failure.

use std::ffi::{CString, c_char};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr;

use guest::protocol::RunRequest;
use rustix::fs::{Mode, OFlags, fcntl_setfl, open};
use rustix::io::{Errno, read, retry_on_intr};
use rustix::pipe::{PipeFlags, pipe_with};

use super::kernel::last_errno;
use super::{oom, shebang};

/// The command to execute, in the form that the kernel takes.
pub(super) struct ScriptCommand {
    /// The paths to try, in the order of `PATH`.
    candidates: Vec<CString>,
    arguments: Vec<CString>,
    /// The arguments that run the script through the interpreter in its shebang line, for file
    /// systems mounted `noexec`. Empty without an interpreter.
    interpreter_arguments: Vec<CString>,
    environment: Vec<CString>,
    cwd: CString,
    split_streams: bool,
}

/// A started script and our ends of its pipes.
pub(super) struct RunningScript {
    pub pid: i32,
    pub stdout: OwnedFd,
    /// `None` when both streams use one pipe.
    pub stderr: Option<OwnedFd>,
}

/// The descriptor on which the child reports why the exec failed. A successful exec closes it.
const REPORT_FD: RawFd = 3;

impl ScriptCommand {
    pub(super) fn new(run: &RunRequest<'_>) -> Result<Self, Errno> {
        let text = |text: &str| CString::new(text).map_err(|_| Errno::INVAL);
        #[expect(
            clippy::disallowed_methods,
            reason = "the launcher passes the directories of the interpreters in PATH"
        )]
        let path = std::env::var("PATH").unwrap_or_default();
        let first = run.argv.first().ok_or(Errno::INVAL)?;
        let candidates = match first.contains('/') {
            true => vec![text(first)?],
            false => path
                .split(':')
                .map(|dir| text(&format!("{dir}/{first}")))
                .collect::<Result<_, _>>()?,
        };
        let mut environment = vec![text(&format!("PATH={path}"))?];
        for (name, value) in &run.env {
            environment.push(text(&format!("{name}={value}"))?);
        }
        Ok(ScriptCommand {
            candidates,
            arguments: run.argv.iter().map(|argument| text(argument)).collect::<Result<_, _>>()?,
            interpreter_arguments: match shebang::interpreter(first) {
                Some(words) => words
                    .iter()
                    .map(String::as_str)
                    .chain(run.argv.iter().copied())
                    .map(text)
                    .collect::<Result<_, _>>()?,
                None => Vec::new(),
            },
            environment,
            cwd: text(run.cwd)?,
            split_streams: run.split_streams,
        })
    }
}

/// Starts the script and waits until it is executed or has failed.
pub(super) fn start(
    program: &ScriptCommand,
    stdin: Option<&OwnedFd>,
    oom: &oom::OomScore,
) -> Result<RunningScript, Errno> {
    let null = open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let (stdout, stdout_of_child) = pipe_with(PipeFlags::CLOEXEC)?;
    let split = if program.split_streams { Some(pipe_with(PipeFlags::CLOEXEC)?) } else { None };
    let (report, report_of_child) = pipe_with(PipeFlags::CLOEXEC)?;
    // Only our ends are non-blocking: programs expect blocking output.
    for ours in [Some(&stdout), split.as_ref().map(|(ours, _)| ours)].into_iter().flatten() {
        fcntl_setfl(ours, OFlags::NONBLOCK)?;
    }
    let child = ForkedChild {
        candidates: program.candidates.iter().map(|path| path.as_ptr()).collect(),
        arguments: pointers(&program.arguments),
        interpreter_arguments: pointers(&program.interpreter_arguments),
        environment: pointers(&program.environment),
        cwd: program.cwd.as_ptr(),
        stdin: stdin.unwrap_or(&null).as_raw_fd(),
        stdout: stdout_of_child.as_raw_fd(),
        stderr: split.as_ref().map_or(&stdout_of_child, |(_, child)| child).as_raw_fd(),
        report: report_of_child.as_raw_fd(),
    };
    // SAFETY: this process is single-threaded, so the child is a complete copy of it.
    let pid = oom.fork_with_script_score(|| match unsafe { libc::fork() } {
        // SAFETY: this is the child, and all pointers are to memory of this function or its caller.
        0 => unsafe { child.execute() },
        pid => pid,
    });
    if pid < 0 {
        return Err(last_errno());
    }
    // Otherwise the read below would never reach the end of the pipe.
    drop(report_of_child);
    let mut errno = [0; 4];
    match retry_on_intr(|| read(&report, &mut errno)) {
        Ok(0) => Ok(RunningScript { pid, stdout, stderr: split.map(|(ours, _)| ours) }),
        _ => Err(Errno::from_raw_os_error(i32::from_ne_bytes(errno))),
    }
}

fn pointers(texts: &[CString]) -> Vec<*const c_char> {
    texts.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect()
}

/// The data that the child needs between fork and exec. All pointers are to memory from before the
/// fork.
struct ForkedChild {
    candidates: Vec<*const c_char>,
    arguments: Vec<*const c_char>,
    /// Only the terminating null pointer when there is no interpreter.
    interpreter_arguments: Vec<*const c_char>,
    environment: Vec<*const c_char>,
    cwd: *const c_char,
    stdin: RawFd,
    stdout: RawFd,
    stderr: RawFd,
    report: RawFd,
}

impl ForkedChild {
    /// Executes the script. Must only be called in the child, directly after the fork.
    ///
    /// # Safety
    /// The pointers must be valid C strings and null-terminated arrays of them.
    unsafe fn execute(&self) -> ! {
        // SAFETY: only system calls, on pointers that are valid by this function's contract.
        unsafe {
            // The report descriptor is moved last: until then 3 is the host's stream, and one of
            // the sources could have that number.
            let placed = libc::dup2(self.stdin, 0) >= 0
                && libc::dup2(self.stdout, 1) >= 0
                && libc::dup2(self.stderr, 2) >= 0
                && libc::dup3(self.report, REPORT_FD, libc::O_CLOEXEC) >= 0;
            if !placed {
                fail(self.report, errno());
            }
            // All descriptors of this process are close-on-exec; this closes any inherited ones.
            libc::syscall(libc::SYS_close_range, REPORT_FD + 1, libc::c_uint::MAX, 0);
            libc::setsid();
            reset_signals();
            if libc::chdir(self.cwd) != 0 {
                fail(REPORT_FD, errno());
            }
            // As in a shell: a candidate that exists but cannot be executed is a better error than
            // one that does not exist.
            let mut cause = libc::ENOENT;
            for &candidate in &self.candidates {
                libc::execve(candidate, self.arguments.as_ptr(), self.environment.as_ptr());
                match errno() {
                    libc::ENOENT | libc::ENOTDIR => {}
                    libc::EACCES => cause = libc::EACCES,
                    other => fail(REPORT_FD, other),
                }
            }
            // On a `noexec` file system the exec fails with EACCES.
            if cause == libc::EACCES && !self.interpreter_arguments[0].is_null() {
                libc::execve(
                    self.interpreter_arguments[0],
                    self.interpreter_arguments.as_ptr(),
                    self.environment.as_ptr(),
                );
                cause = errno();
            }
            fail(REPORT_FD, cause)
        }
    }
}

/// Resets all signals to their defaults and unblocks them, as a new program expects.
///
/// # Safety
/// Only in a child that is about to exec.
unsafe fn reset_signals() {
    /// The kernel's own structure. libc's `sigaction` does not change the two signals that the C
    /// library reserves for itself.
    #[repr(C)]
    struct KernelAction([u64; 4]);
    let default = KernelAction([0; 4]);
    // SAFETY: an all-zero action is the default one and an all-zero set is the empty one; both
    // outlive the calls, and signals that cannot be set are refused without harm.
    unsafe {
        for signal in 1..=64 {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                &raw const default,
                ptr::null::<u8>(),
                8usize,
            );
        }
        let none: libc::sigset_t = std::mem::zeroed();
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut());
    }
}

fn errno() -> i32 {
    // SAFETY: the address of this thread's own error number is always valid.
    unsafe { *libc::__errno_location() }
}

/// Reports the error number and exits the child.
fn fail(report: RawFd, errno: i32) -> ! {
    let bytes = errno.to_ne_bytes();
    // SAFETY: the buffer lives across the call, and `_exit` runs no code of the copied parent.
    unsafe {
        libc::write(report, bytes.as_ptr().cast(), bytes.len());
        libc::_exit(127)
    }
}
