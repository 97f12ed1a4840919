//! Takes away what can be said through locks on inodes that every process of the machine shares.
//!
//! Whoever holds a lock is seen by all others that try for it, in whatever namespace. Files come
//! from overlays and have inodes of their own, but some things have one inode for the whole
//! machine: devices, namespaces that are not the sandbox's own, and everything without a file, such
//! as epoll instances and timers, which share a single one. On each of them the guest holds shared
//! locks for as long as it lives. Then an exclusive lock is refused whether others hold one or not,
//! and the first conflict that the kernel names is always that of a guest, because a guest comes
//! before its script.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::{FlockOperation, Mode, OFlags};

/// Whom a record lock belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// The process: nobody outside of its pid namespace sees it in `/proc/locks`, but closing any
    /// descriptor of the inode releases it. For a guest that is running already.
    Process,
    /// The open file: survives an exec. For where `/proc/locks` is hidden.
    OpenFile,
}

/// One inode each; those that do not exist are skipped.
const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// In a container the guest's volume, which all containers of an engine share.
const VOLUME: [&str; 2] = ["/skillbox", "/skillbox/skillbox-guest"];

/// What a native sandbox may share with the machine.
const SHARED_NAMESPACES: [&str; 2] = ["/proc/self/ns/net", "/proc/self/ns/time"];

/// In a container any of them may be the machine's, or another container's.
const NAMESPACES: [&str; 8] = [
    "/proc/self/ns/cgroup", "/proc/self/ns/ipc", "/proc/self/ns/mnt", "/proc/self/ns/net",
    "/proc/self/ns/pid", "/proc/self/ns/time", "/proc/self/ns/user", "/proc/self/ns/uts",
];

/// Holds a shared lock on every shared inode until the descriptors are closed, which survive an
/// exec. None if one of them could not be locked.
pub fn occupy(owner: Owner) -> Option<Vec<OwnedFd>> {
    let mut held = vec![without_file().ok()?];
    // A container has device nodes of its own. The guest opens and closes /dev/null, which would
    // release a process's lock.
    let (files, namespaces): (&[&str], &[&str]) = match owner {
        Owner::OpenFile => (&DEVICES, &SHARED_NAMESPACES),
        Owner::Process => (&VOLUME, &NAMESPACES),
    };
    for path in files.iter().chain(namespaces) {
        held.extend(open(path).ok()?);
    }
    held.iter().all(|inode| lock(inode, owner).is_ok()).then_some(held)
}

/// A descriptor of the inode that is shared by everything without a file.
fn without_file() -> io::Result<OwnedFd> {
    Ok(rustix::event::eventfd(0, rustix::event::EventfdFlags::empty())?)
}

fn open(path: &str) -> io::Result<Option<OwnedFd>> {
    match rustix::fs::open(CString::new(path)?, OFlags::RDONLY, Mode::empty()) {
        Ok(file) => Ok(Some(file)),
        Err(rustix::io::Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn lock(inode: &OwnedFd, owner: Owner) -> io::Result<()> {
    rustix::fs::flock(inode, FlockOperation::NonBlockingLockShared)?;
    let command = match owner {
        Owner::Process => libc::F_SETLK,
        Owner::OpenFile => libc::F_OFD_SETLK,
    };
    // SAFETY: an all-zero lock is a valid value of that plain struct: the whole file, of no
    // process.
    let mut whole: libc::flock = unsafe { std::mem::zeroed() };
    whole.l_type = libc::F_RDLCK as libc::c_short;
    // SAFETY: the kernel reads the structure, which outlives the call.
    let done = unsafe { libc::fcntl(inode.as_raw_fd(), command, &raw const whole) };
    if done == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
