//! Spare children: cloned into their namespaces and prepared ahead of time, waiting for a launch
//! request.

use super::cgroup::SandboxCgroup;
use super::sys::{self, Cloned};
use super::{child, identity, kill};
use guest::channel;
use guest::jail::{CgroupLimits, EnforcedLimits, SandboxNetwork, SandboxPlan};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// All namespaces except the network namespace, which depends on the host's request, and the cgroup
/// namespace, which a child enters only after it is in its cgroup.
const NAMESPACES: libc::c_int = libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS;

/// Notifies a child that its user is mapped. The content does not matter, but it must not be empty:
/// an empty packet means that the launcher has exited.
const USER_MAPPED: &[u8] = b"mapped";

/// A child that has not been assigned to a launch request yet.
pub(super) struct SpareChild {
    pub pid: i32,
    pub pidfd: OwnedFd,
    channel: OwnedFd,
    pub group: SandboxCgroup,
    unique_uid: bool,
}

impl SpareChild {
    /// Clones a child into new namespaces and into `group`. On failure the group is returned, so
    /// that the caller can remove it.
    pub(super) fn clone_into(
        group: SandboxCgroup,
        plan: &SandboxPlan,
        network: SandboxNetwork,
        program: BorrowedFd<'_>,
    ) -> Result<SpareChild, (SandboxCgroup, io::Error)> {
        match clone_and_map(&group, plan, network, program) {
            Ok((pid, pidfd, channel, unique_uid)) => {
                Ok(SpareChild { pid, pidfd, channel, group, unique_uid })
            }
            Err(error) => Err((group, error)),
        }
    }

    /// Applies the cgroup limits and sends the launch packet, which has the other limits and the
    /// stream. The child becomes the guest with it.
    pub(super) fn assign(
        &self,
        limits: &CgroupLimits,
        packet: &channel::Packet,
    ) -> io::Result<EnforcedLimits> {
        let enforced = self.group.apply_limits(limits)?;
        let stream = packet.fd.as_ref().ok_or(io::ErrorKind::InvalidInput)?;
        channel::send(&self.channel, &packet.bytes, Some(stream.as_fd()))?;
        Ok(EnforcedLimits { unique_uid: self.unique_uid, ..enforced })
    }
}

fn clone_and_map(
    group: &SandboxCgroup,
    plan: &SandboxPlan,
    network: SandboxNetwork,
    program: BorrowedFd<'_>,
) -> io::Result<(i32, OwnedFd, OwnedFd, bool)> {
    let (ours, theirs) = rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?;
    let target = group.clone_target()?;
    match sys::clone_into(namespaces(network), target.as_ref().map(AsFd::as_fd))? {
        Cloned::Child => {
            // With copies of the launcher's descriptors in its children, neither the host nor the
            // other children would receive an end of file when the launcher exits.
            if sys::close_all_but([theirs.as_fd(), program]).is_err() {
                std::process::exit(1);
            }
            child::run_child(group, theirs, program, (plan, network))
        }
        Cloned::Parent { pid, pidfd } => match map_ids_and_notify(pid, &ours) {
            Ok(unique_uid) => Ok((pid, pidfd, ours, unique_uid)),
            Err(error) => {
                kill(&pidfd);
                let _ = sys::reap(pid);
                Err(error)
            }
        },
    }
}

fn namespaces(network: SandboxNetwork) -> u64 {
    let network = match network {
        SandboxNetwork::Own => libc::CLONE_NEWNET,
        SandboxNetwork::Host => 0,
    };
    (NAMESPACES | network) as u64
}

/// Maps the user of a child and notifies the child, which waits for it: only a process outside of
/// the user namespace can map an id other than its own. True when the id is unique to this sandbox.
fn map_ids_and_notify(pid: i32, channel: &OwnedFd) -> io::Result<bool> {
    let unique_uid = identity::map_ids(pid)?;
    channel::send(channel, USER_MAPPED, None)?;
    Ok(unique_uid)
}
