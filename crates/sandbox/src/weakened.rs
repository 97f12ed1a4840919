//! Sandboxes without one of their defences, on which a test shows that its attack would succeed.
//! Compiled for the tests of this crate alone.

use guest::jail::{RootEntry, SandboxPlan};
use guest::protocol::Confinement;

/// What can be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Defence {
    /// Record locks and connections are counted.
    CountedMemory,
    /// No inode is shared with another sandbox.
    OwnInodes,
    /// Of `/proc` nothing can be written, and what it tells of the host is covered.
    ClosedProc,
    /// System calls with arguments that no script needs are refused.
    CheckedArguments,
}

/// A program for the kernel of one instruction, which allows everything.
const ALLOW_ALL: [u8; 8] = [libc::BPF_RET as u8, 0, 0, 0, 0, 0, 0xff, 0x7f];

pub fn plan(mut plan: SandboxPlan, without: Defence) -> SandboxPlan {
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

/// The same in a container, where `/proc` and a second set of filters are the engine's.
pub fn confine(mut confine: Confinement, without: Option<Defence>) -> Confinement {
    match without {
        Some(Defence::CountedMemory) => {
            confine.notify_filter.clear();
            confine.no_lock_filter = ALLOW_ALL.to_vec();
        }
        Some(Defence::OwnInodes) => confine.private_inodes = false,
        _ => {}
    }
    confine
}
