//! Sandboxes without one of their defences, to show in a test that the attack would succeed
//! otherwise. Only compiled for the tests of this crate.

use guest::jail::{RootEntry, SandboxPlan};
use guest::protocol::Confinement;

/// A defence that can be disabled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Defence {
    /// Record locks and connections are counted.
    CountedMemory,
    /// No inode is shared with another sandbox.
    OwnInodes,
    /// `/proc` is not writable, and its information about the host is masked.
    ClosedProc,
    /// System calls with arguments that no script needs are denied.
    CheckedArguments,
}

/// A BPF program of one instruction, which allows all calls.
const ALLOW_ALL: [u8; 8] = [libc::BPF_RET as u8, 0, 0, 0, 0, 0, 0xff, 0x7f];

pub(crate) fn plan(mut plan: SandboxPlan, without: Defence) -> SandboxPlan {
    match without {
        Defence::CountedMemory => {
            plan.notify_filter.clear();
            plan.no_lock_filter = ALLOW_ALL.to_vec();
        }
        Defence::OwnInodes => plan.private_inodes = false,
        Defence::ClosedProc => {
            plan.landlock.read_and_write.push("/proc".to_owned());
            plan.root.iter_mut().for_each(|entry| {
                if let RootEntry::Proc { masked } = entry {
                    masked.clear();
                }
            });
        }
        Defence::CheckedArguments => plan.seccomp = crate::seccomp::program_with_any_arguments(),
    }
    plan
}

/// The same in a container, where the engine provides `/proc` and another filter.
pub(crate) fn confine(mut confine: Confinement, without: Option<Defence>) -> Confinement {
    match without {
        Some(Defence::CountedMemory) => {
            confine.notify_filter.clear();
            confine.no_lock_filter = ALLOW_ALL.to_vec();
        }
        Some(Defence::OwnInodes) => confine.private_inodes = false,
        Some(Defence::ClosedProc | Defence::CheckedArguments) | None => {}
    }
    confine
}
