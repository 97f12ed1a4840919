//! System calls without a safe wrapper in rustix. All unsafe code of the launcher is here.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// libc's constant has a type that is too small for the value.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// The result of `clone3` in the child and in the parent.
pub(super) enum Cloned {
    Child,
    Parent { pid: i32, pidfd: OwnedFd },
}

/// Clones a child into new namespaces and, if one of the unified hierarchy is given, into `cgroup`.
pub(super) fn clone_into(namespaces: u64, cgroup: Option<BorrowedFd<'_>>) -> io::Result<Cloned> {
    let mut pidfd: i32 = -1;
    let mut args = libc::clone_args {
        flags: namespaces | libc::CLONE_PIDFD as u64,
        pidfd: &raw mut pidfd as u64,
        child_tid: 0,
        parent_tid: 0,
        exit_signal: libc::SIGCHLD as u64,
        stack: 0,
        stack_size: 0,
        tls: 0,
        set_tid: 0,
        set_tid_size: 0,
        cgroup: 0,
    };
    if let Some(cgroup) = cgroup {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = cgroup.as_raw_fd() as u64;
    }
    // SAFETY: without CLONE_VM the child has its own copy of this single-threaded process, as after
    // fork; `args` and `pidfd` live across the call.
    let pid =
        unsafe { libc::syscall(libc::SYS_clone3, &raw mut args, size_of::<libc::clone_args>()) };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Cloned::Child),
        pid => {
            // SAFETY: the kernel stored a new descriptor there that no other value owns.
            let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
            Ok(Cloned::Parent { pid: pid as i32, pidfd })
        }
    }
}

/// Enters a new cgroup namespace, whose root is the current cgroup.
pub(super) fn unshare_cgroup_namespace() -> io::Result<()> {
    // SAFETY: a cgroup namespace changes no descriptor and no memory.
    let done = unsafe { libc::unshare(libc::CLONE_NEWCGROUP) };
    if done == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Sets mount attributes on a mount and, when `recursive`, on those below it.
pub(super) fn set_mount_attributes(
    tree: BorrowedFd<'_>,
    attributes: u64,
    recursive: bool,
) -> io::Result<()> {
    let attr = libc::mount_attr { attr_set: attributes, attr_clr: 0, propagation: 0, userns_fd: 0 };
    let flags = libc::AT_EMPTY_PATH | if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the path is an empty C string and `attr` outlives the call.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const attr,
            size_of::<libc::mount_attr>(),
        )
    };
    if done == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Reaps a child; returns the resources that it and its descendants used. Blocks until it exits.
pub(super) fn reap(pid: i32) -> io::Result<libc::rusage> {
    let mut status = 0;
    // SAFETY: an all-zero rusage is a valid value of that plain struct.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to live locals.
    let reaped = unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut usage) };
    if reaped == pid { Ok(usage) } else { Err(io::Error::last_os_error()) }
}

/// Brings up the loopback interface of this network namespace.
pub(super) fn bring_up_loopback() -> io::Result<()> {
    let socket = rustix::net::socket(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::DGRAM,
        None,
    )?;
    // SAFETY: an all-zero ifreq is a valid value of that plain struct.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l' as libc::c_char;
    request.ifr_name[1] = b'o' as libc::c_char;
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: SIOCSIFFLAGS reads an ifreq, which outlives the call.
    let done =
        unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    if done == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Installs one seccomp program, given as raw instructions.
pub(super) fn install_seccomp(program: &[u8]) -> io::Result<()> {
    install(program, 0).map(drop)
}

/// Installs a filter that suspends calls, and returns the listener for them.
pub(super) fn install_notify_filter(program: &[u8]) -> io::Result<OwnedFd> {
    let listener = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
    // With the second flag (since Linux 5.19), signals do not interrupt a call that the listener
    // has received.
    let fd = install(program, listener | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)
        .or_else(|_| install(program, listener))?;
    // SAFETY: with this flag the kernel returns a new descriptor, which no other value owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

fn install(program: &[u8], flags: libc::c_ulong) -> io::Result<libc::c_long> {
    let filters: Vec<libc::sock_filter> = program
        .chunks_exact(8)
        .map(|raw| libc::sock_filter {
            code: u16::from_ne_bytes([raw[0], raw[1]]),
            jt: raw[2],
            jf: raw[3],
            k: u32::from_ne_bytes([raw[4], raw[5], raw[6], raw[7]]),
        })
        .collect();
    let fprog = libc::sock_fprog { len: filters.len() as u16, filter: filters.as_ptr().cast_mut() };
    // SAFETY: `fprog` points into `filters`; the kernel copies and checks the program during the
    // call.
    let done = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const fprog)
    };
    if done == -1 { Err(io::Error::last_os_error()) } else { Ok(done) }
}

/// Makes `fd` the descriptor `target`, which then survives an exec.
pub(super) fn duplicate_to(fd: BorrowedFd<'_>, target: i32) -> io::Result<()> {
    // SAFETY: dup2 takes two numbers. The caller names descriptors that no Rust value will use
    // again, because an exec follows.
    let done = unsafe { libc::dup2(fd.as_raw_fd(), target) };
    if done == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Marks every descriptor from `first` on to be closed by the next exec.
pub(super) fn close_on_exec_from(first: u32) -> io::Result<()> {
    // SAFETY: with this flag no descriptor is closed now, so all owned descriptors stay valid.
    let done =
        unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if done == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Closes every descriptor from 3 on except these two. Only for a child that never uses the others.
pub(super) fn close_all_but(keep: [BorrowedFd<'_>; 2]) -> io::Result<()> {
    let mut keep = keep.map(|fd| fd.as_raw_fd() as u32);
    keep.sort_unstable();
    for (first, last) in [(3, keep[0] - 1), (keep[0] + 1, keep[1] - 1), (keep[1] + 1, u32::MAX)] {
        // SAFETY: the values that own these descriptors are copies in a child that never uses them.
        if first <= last && unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } == -1 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Executes the program behind the descriptor. Returns only on failure.
pub(super) fn execute(
    program: BorrowedFd<'_>,
    arguments: &[&CStr],
    environment: &[&CStr],
) -> io::Error {
    let pointers = |strings: &[&CStr]| -> Vec<*const libc::c_char> {
        strings.iter().map(|s| s.as_ptr()).chain([std::ptr::null()]).collect()
    };
    let (argv, envp) = (pointers(arguments), pointers(environment));
    // SAFETY: both arrays end in a null pointer and, like the strings in them, outlive the call.
    unsafe {
        libc::syscall(
            libc::SYS_execveat,
            program.as_raw_fd(),
            c"".as_ptr(),
            argv.as_ptr(),
            envp.as_ptr(),
            libc::AT_EMPTY_PATH,
        )
    };
    io::Error::last_os_error()
}
