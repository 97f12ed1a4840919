//! Starts the script: everything is prepared before the fork, and the child only makes system
//! calls.

use std::ffi::{CString, c_char};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr;

use guest::protocol::RunRequest;
use rustix::fs::{Mode, OFlags, fcntl_setfl, open};
use rustix::io::{Errno, read, retry_on_intr};
use rustix::pipe::{PipeFlags, pipe_with};

use super::kernel::last_errno;
use super::{oom, shebang};

/// What to execute, ready to be handed to the kernel.
pub struct Program {
    /// The paths to try, in the order of `PATH`.
    candidates: Vec<CString>,
    arguments: Vec<CString>,
    /// The arguments that run it through the interpreter it names, for where its file system
    /// executes nothing.
    by_interpreter: Vec<CString>,
    environment: Vec<CString>,
    cwd: CString,
    split_streams: bool,
}

/// A started script and the ends of its pipes that we read.
pub struct Running {
    pub pid: i32,
    pub stdout: OwnedFd,
    /// None when both streams go through one pipe.
    pub stderr: Option<OwnedFd>,
}

/// The child reports here why it could not execute; executing closes it.
const REPORT_FD: RawFd = 3;

impl Program {
    pub fn new(run: &RunRequest<'_>) -> Result<Self, Errno> {
        let text = |text: &str| CString::new(text).map_err(|_| Errno::INVAL);
        #[expect(
            clippy::disallowed_methods,
            reason = "whoever started the guest says by PATH where interpreters are"
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
        Ok(Program {
            candidates,
            arguments: run.argv.iter().map(|argument| text(argument)).collect::<Result<_, _>>()?,
            by_interpreter: match shebang::interpreter(first) {
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

/// Starts the program and waits until it is executed, or says why it could not be.
pub fn start(
    program: &Program,
    stdin: Option<&OwnedFd>,
    oom: &oom::Score,
) -> Result<Running, Errno> {
    let nothing = open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let (stdout, stdout_of_child) = pipe_with(PipeFlags::CLOEXEC)?;
    let split = if program.split_streams { Some(pipe_with(PipeFlags::CLOEXEC)?) } else { None };
    let (report, report_of_child) = pipe_with(PipeFlags::CLOEXEC)?;
    // Only our ends: the script's own must behave as any program expects.
    for ours in [Some(&stdout), split.as_ref().map(|(ours, _)| ours)].into_iter().flatten() {
        fcntl_setfl(ours, OFlags::NONBLOCK)?;
    }
    let child = Child {
        candidates: program.candidates.iter().map(|path| path.as_ptr()).collect(),
        arguments: pointers(&program.arguments),
        by_interpreter: pointers(&program.by_interpreter),
        environment: pointers(&program.environment),
        cwd: program.cwd.as_ptr(),
        stdin: stdin.unwrap_or(&nothing).as_raw_fd(),
        stdout: stdout_of_child.as_raw_fd(),
        stderr: split.as_ref().map_or(&stdout_of_child, |(_, child)| child).as_raw_fd(),
        report: report_of_child.as_raw_fd(),
    };
    // SAFETY: this process has one thread, so the child is a whole copy of it.
    let pid = oom.first_to_go(|| match unsafe { libc::fork() } {
        // SAFETY: this is that child, and all pointers are to memory of this function or its
        // caller.
        0 => unsafe { child.execute() },
        pid => pid,
    });
    if pid < 0 {
        return Err(last_errno());
    }
    drop(report_of_child);
    let mut errno = [0; 4];
    match retry_on_intr(|| read(&report, &mut errno)) {
        Ok(0) => Ok(Running { pid, stdout, stderr: split.map(|(ours, _)| ours) }),
        _ => Err(Errno::from_raw_os_error(i32::from_ne_bytes(errno))),
    }
}

fn pointers(texts: &[CString]) -> Vec<*const c_char> {
    texts.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect()
}

/// What the child needs between fork and execution. All of it points into memory made before the
/// fork.
struct Child {
    candidates: Vec<*const c_char>,
    arguments: Vec<*const c_char>,
    /// Only the end when there is no interpreter.
    by_interpreter: Vec<*const c_char>,
    environment: Vec<*const c_char>,
    cwd: *const c_char,
    stdin: RawFd,
    stdout: RawFd,
    stderr: RawFd,
    report: RawFd,
}

impl Child {
    /// Becomes the script. To be called only right after a fork, in the child.
    ///
    /// # Safety
    /// The pointers must be valid C strings and null-terminated arrays of them.
    unsafe fn execute(&self) -> ! {
        // SAFETY: only system calls, on pointers that the caller vouches for.
        unsafe {
            // The report goes last to its place, because descriptor 3 is the host's stream until
            // then.
            let placed = libc::dup2(self.stdin, 0) >= 0
                && libc::dup2(self.stdout, 1) >= 0
                && libc::dup2(self.stderr, 2) >= 0
                && libc::dup3(self.report, REPORT_FD, libc::O_CLOEXEC) >= 0;
            if !placed {
                fail(self.report, errno());
            }
            // All our descriptors close on execution; this holds for those that we do not know of.
            libc::syscall(libc::SYS_close_range, REPORT_FD + 1, libc::c_uint::MAX, 0);
            libc::setsid();
            default_signals();
            if libc::chdir(self.cwd) != 0 {
                fail(REPORT_FD, errno());
            }
            // As a shell does: what is there but may not be executed is a better answer than what
            // is not there.
            let mut why = libc::ENOENT;
            for &candidate in &self.candidates {
                libc::execve(candidate, self.arguments.as_ptr(), self.environment.as_ptr());
                match errno() {
                    libc::ENOENT | libc::ENOTDIR => {}
                    libc::EACCES => why = libc::EACCES,
                    other => fail(REPORT_FD, other),
                }
            }
            if why == libc::EACCES && !self.by_interpreter[0].is_null() {
                libc::execve(
                    self.by_interpreter[0],
                    self.by_interpreter.as_ptr(),
                    self.environment.as_ptr(),
                );
                why = errno();
            }
            fail(REPORT_FD, why)
        }
    }
}

/// Every signal does what a new program expects, and none is blocked.
///
/// # Safety
/// Only in a child that is about to execute.
unsafe fn default_signals() {
    /// As the kernel wants it: the C library keeps two signals for itself and would leave them as
    /// they are.
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

/// Reports why and ends the child.
fn fail(report: RawFd, errno: i32) -> ! {
    let bytes = errno.to_ne_bytes();
    // SAFETY: the buffer lives across the call, and `_exit` runs nothing of the copied parent.
    unsafe {
        libc::write(report, bytes.as_ptr().cast(), bytes.len());
        libc::_exit(127)
    }
}
