//! Who a sandbox is: its user and group, and the capabilities it gives up.

use guest::jail::{INSIDE_ID, UID_BASE};
use rustix::process::{Gid, Uid};
use rustix::thread::{CapabilitySet, CapabilitySets};
use std::{fs, io};

/// Maps the one user and group of a new user namespace; true when they are this run's alone.
///
/// Root maps an id that nothing else on the machine has; anyone else can only map themselves.
pub fn map(pid: i32) -> io::Result<bool> {
    let root = rustix::process::geteuid().is_root();
    let (uid, gid) = if root {
        (UID_BASE + pid as u32, UID_BASE + pid as u32)
    } else {
        // The kernel wants this before an unprivileged group map.
        fs::write(format!("/proc/{pid}/setgroups"), "deny")?;
        (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
    };
    fs::write(format!("/proc/{pid}/gid_map"), format!("{INSIDE_ID} {gid} 1\n"))?;
    fs::write(format!("/proc/{pid}/uid_map"), format!("{INSIDE_ID} {uid} 1\n"))?;
    Ok(root)
}

/// Becomes that user. Until then new files would belong to nobody, and the kernel refuses to make them.
pub fn assume() -> io::Result<()> {
    match rustix::thread::set_thread_groups(&[]) {
        // Without privilege supplementary groups cannot be dropped; none of them is mapped inside.
        Ok(()) | Err(rustix::io::Errno::PERM) => {}
        Err(error) => return Err(error.into()),
    }
    let (uid, gid) = (Uid::from_raw(INSIDE_ID), Gid::from_raw(INSIDE_ID));
    rustix::thread::set_thread_res_gid(gid, gid, gid)?;
    rustix::thread::set_thread_res_uid(uid, uid, uid)?;
    Ok(())
}

/// Empties all five capability sets. The bounding set goes first, because dropping it takes a capability.
pub fn drop_capabilities() -> io::Result<()> {
    for bit in 0..64 {
        match rustix::thread::remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << bit)) {
            Ok(()) => {}
            // The first number this kernel does not know.
            Err(rustix::io::Errno::INVAL) => break,
            Err(error) => return Err(error.into()),
        }
    }
    rustix::thread::clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    Ok(rustix::thread::set_capabilities(None, sets)?)
}
