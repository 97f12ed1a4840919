//! The identity of a sandbox: its user, group and capabilities.

use guest::jail::{INSIDE_ID, UID_BASE};
use rustix::process::{Gid, Uid};
use rustix::thread::{CapabilitySet, CapabilitySets};
use std::{fs, io};

/// Maps the one user and group of a new user namespace; true when they are unique to this sandbox.
///
/// Root maps an id that nothing else on the machine uses; another user can only map its own.
pub(super) fn map_ids(pid: i32) -> io::Result<bool> {
    let root = rustix::process::geteuid().is_root();
    let (uid, gid) = if root {
        let id = UID_BASE + permute_pid(pid as u32, &boot_id());
        (id, id)
    } else {
        // The kernel requires this before an unprivileged group mapping.
        fs::write(format!("/proc/{pid}/setgroups"), "deny")?;
        (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
    };
    fs::write(format!("/proc/{pid}/gid_map"), format!("{INSIDE_ID} {gid} 1\n"))?;
    fs::write(format!("/proc/{pid}/uid_map"), format!("{INSIDE_ID} {uid} 1\n"))?;
    Ok(root)
}

/// A secret that all launchers on this machine share and no sandbox can read (it is masked).
fn boot_id() -> Vec<u8> {
    fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default()
}

/// Permutes the 22-bit pids with a key: a sandbox can read its host uid in `/proc/self/uid_map` and
/// must not learn a host pid from it. Four rounds of a Feistel network, so that no two pids get the
/// same number.
fn permute_pid(pid: u32, key: &[u8]) -> u32 {
    const HALF: u32 = 11;
    const MASK: u32 = (1 << HALF) - 1;
    let round = |number: u8, half: u32| -> u32 {
        // FNV-1a with a final mixing step.
        let bytes = key.iter().copied().chain([number]).chain(half.to_le_bytes());
        let hash = bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        ((hash ^ (hash >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93) >> 40) as u32 & MASK
    };
    let (left, right) = (0..4).fold((pid >> HALF & MASK, pid & MASK), |(left, right), number| {
        (right, left ^ round(number, right))
    });
    left << HALF | right
}

/// Switches to the mapped user. Before that, new files would have an unmapped owner, and the kernel
/// rejects creating them.
pub(super) fn switch_to_inside_user() -> io::Result<()> {
    match rustix::thread::set_thread_groups(&[]) {
        // An unprivileged process cannot drop supplementary groups; none of them is mapped inside.
        Ok(()) | Err(rustix::io::Errno::PERM) => {}
        Err(error) => return Err(error.into()),
    }
    let (uid, gid) = (Uid::from_raw(INSIDE_ID), Gid::from_raw(INSIDE_ID));
    rustix::thread::set_thread_res_gid(gid, gid, gid)?;
    rustix::thread::set_thread_res_uid(uid, uid, uid)?;
    Ok(())
}

/// Empties the capability bounding set. Dropping from it requires a capability, so it must be done
/// before the other sets are emptied; it removes no capability of this process, so it can be done
/// early.
pub(super) fn drop_bounding_set() -> io::Result<()> {
    for bit in 0..64 {
        match rustix::thread::remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(
            1 << bit,
        )) {
            Ok(()) => {}
            // The first number that this kernel does not support.
            Err(rustix::io::Errno::INVAL) => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Empties the other four capability sets.
pub(super) fn drop_capabilities() -> io::Result<()> {
    rustix::thread::clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    Ok(rustix::thread::set_capabilities(None, sets)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permutation_is_unique_per_pid_and_depends_on_the_key() {
        let mut taken = vec![false; 1 << 22];
        for pid in 0..1 << 22 {
            let number = permute_pid(pid, b"k") as usize;
            assert!(!std::mem::replace(&mut taken[number], true), "{number} twice");
        }
        let same =
            (0..10_000).filter(|pid| permute_pid(*pid, b"k") == permute_pid(*pid, b"l")).count();
        let unchanged = (0..10_000).filter(|pid| permute_pid(*pid, b"k") == *pid).count();
        assert!(
            same < 10 && unchanged < 10,
            "{same} the same with another key, {unchanged} unchanged"
        );
    }
}
