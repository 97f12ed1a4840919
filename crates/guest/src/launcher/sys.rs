//! The system calls that have no safe wrapper in rustix. All unsafe code of the launcher is here.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// libc has it in a type too small for it.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// What `clone3` returned, on either side.
pub enum Cloned {
    Child,
    Parent { pid: i32, pidfd: OwnedFd },
}

/// Makes a child in new namespaces, in `cgroup` when one of the unified hierarchy is given.
pub fn clone_into(namespaces: u64, cgroup: Option<BorrowedFd<'_>>) -> io::Result<Cloned> {
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
        // SAFETY: the kernel stored a new descriptor there that nobody else owns.
        pid => {
            Ok(Cloned::Parent { pid: pid as i32, pidfd: unsafe { OwnedFd::from_raw_fd(pidfd) } })
        }
    }
}

/// Makes the cgroup this process is in the root of what it sees.
pub fn unshare_cgroup_namespace() -> io::Result<()> {
    // SAFETY: a cgroup namespace changes no descriptor and no memory.
    let done = unsafe { libc::unshare(libc::CLONE_NEWCGROUP) };
    if done == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Sets mount attributes on a mount and, when `recursive`, on those below it.
pub fn set_mount_attributes(
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

/// Reaps a child and tells the resources it and its descendants used.
pub fn reap(pid: i32) -> io::Result<libc::rusage> {
    let mut status = 0;
    // SAFETY: an all-zero rusage is a valid value of that plain struct.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to live locals.
    let reaped = unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut usage) };
    if reaped == pid { Ok(usage) } else { Err(io::Error::last_os_error()) }
}

/// Brings the loopback interface of this network namespace up.
pub fn bring_up_loopback() -> io::Result<()> {
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
pub fn install_seccomp(program: &[u8]) -> io::Result<()> {
    install(program, 0).map(drop)
}

/// The same of one that makes calls wait, and hands back where they are heard.
pub fn install_witness(program: &[u8]) -> io::Result<OwnedFd> {
    let listener = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
    // With the second flag, which kernels before 5.19 do not know, a call that was heard is not
    // disturbed by signals.
    let heard = install(program, listener | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)
        .or_else(|_| install(program, listener))?;
    // SAFETY: with this flag the kernel returns a new descriptor, which nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(heard as i32) })
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
pub fn place_fd(fd: BorrowedFd<'_>, target: i32) -> io::Result<()> {
    // SAFETY: dup2 takes two numbers. The caller names descriptors that no Rust value will use
    // again, because an exec follows.
    let done = unsafe { libc::dup2(fd.as_raw_fd(), target) };
    if done == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Marks every descriptor from `first` on to be closed by the next exec.
pub fn close_on_exec_from(first: u32) -> io::Result<()> {
    // SAFETY: with CLOEXEC no descriptor is closed yet, so no owner is surprised.
    let done =
        unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if done == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Closes every descriptor from 3 on but these two. For a child that never returns to what owned
/// the others.
pub fn close_all_but(keep: [BorrowedFd<'_>; 2]) -> io::Result<()> {
    let mut keep = keep.map(|fd| fd.as_raw_fd() as u32);
    keep.sort_unstable();
    for (first, last) in [(3, keep[0] - 1), (keep[0] + 1, keep[1] - 1), (keep[1] + 1, u32::MAX)] {
        // SAFETY: the values that own these descriptors are copies in a child that never touches
        // them.
        if first <= last && unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } == -1 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Replaces this process by the program behind `program`. Returns only on failure.
pub fn execute(program: BorrowedFd<'_>, arguments: &[&CStr], environment: &[&CStr]) -> io::Error {
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
