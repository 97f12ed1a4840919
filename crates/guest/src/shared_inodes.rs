//! Closes the covert channel of locks on inodes that all processes of the machine share.
//!
//! A held lock is visible to every process that tries to take it, in any namespace. Files come from
//! overlays and have inodes of their own, but some objects have one inode for the whole machine:
//! devices, namespaces that the sandbox shares, and everything without a file, such as epoll
//! instances and timers, which share a single anonymous inode. The guest holds a shared lock on
//! each of them for its lifetime. An exclusive lock is then always rejected, whether other
//! sandboxes hold one or not, and the first conflict that the kernel reports is always a guest's,
//! because a guest locks before its script starts.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::{FlockOperation, Mode, OFlags};

/// The owner of a record lock.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum LockOwner {
    /// The process: invisible in `/proc/locks` outside of its pid namespace, but released when any
    /// descriptor of the inode is closed. For a guest that is already running.
    Process,
    /// The open file: survives an exec. For sandboxes where `/proc/locks` is masked.
    OpenFile,
}

/// Devices with one inode per machine; missing ones are skipped.
const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// The guest's volume in a container, which all containers of an engine share.
const GUEST_VOLUME: [&str; 2] = ["/skillbox", "/skillbox/skillbox-guest"];

/// Namespaces that a native sandbox may share with the host.
const SHARED_NAMESPACES: [&str; 2] = ["/proc/self/ns/net", "/proc/self/ns/time"];

/// Namespaces that a container may share with the host or with another container.
const CONTAINER_NAMESPACES: [&str; 8] = [
    "/proc/self/ns/cgroup", "/proc/self/ns/ipc", "/proc/self/ns/mnt", "/proc/self/ns/net",
    "/proc/self/ns/pid", "/proc/self/ns/time", "/proc/self/ns/user", "/proc/self/ns/uts",
];

/// Takes a shared lock on every shared inode. The locks are held until the returned descriptors,
/// which survive an exec, are closed. `None` if one of them could not be locked.
pub(crate) fn lock_all(owner: LockOwner) -> Option<Vec<OwnedFd>> {
    let mut held = vec![anonymous_inode().ok()?];
    // Devices are not locked in a container, which has device nodes of its own; besides, the guest
    // opens and closes /dev/null, which would release a process's lock.
    let (files, namespaces): (&[&str], &[&str]) = match owner {
        LockOwner::OpenFile => (&DEVICES, &SHARED_NAMESPACES),
        LockOwner::Process => (&GUEST_VOLUME, &CONTAINER_NAMESPACES),
    };
    for path in files.iter().chain(namespaces) {
        held.extend(open(path).ok()?);
    }
    held.iter().all(|inode| lock(inode, owner).is_ok()).then_some(held)
}

/// A descriptor of the anonymous inode.
fn anonymous_inode() -> io::Result<OwnedFd> {
    Ok(rustix::event::eventfd(0, rustix::event::EventfdFlags::empty())?)
}

fn open(path: &str) -> io::Result<Option<OwnedFd>> {
    match rustix::fs::open(CString::new(path)?, OFlags::RDONLY, Mode::empty()) {
        Ok(file) => Ok(Some(file)),
        Err(rustix::io::Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn lock(inode: &OwnedFd, owner: LockOwner) -> io::Result<()> {
    rustix::fs::flock(inode, FlockOperation::NonBlockingLockShared)?;
    let command = match owner {
        LockOwner::Process => libc::F_SETLK,
        LockOwner::OpenFile => libc::F_OFD_SETLK,
    };
    // SAFETY: an all-zero lock is a valid value of that plain struct and means the whole file.
    let mut whole: libc::flock = unsafe { std::mem::zeroed() };
    whole.l_type = libc::F_RDLCK as libc::c_short;
    // SAFETY: the kernel reads the structure, which outlives the call.
    let done = unsafe { libc::fcntl(inode.as_raw_fd(), command, &raw const whole) };
    if done == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
