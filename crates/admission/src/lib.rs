//! Permits for what all tenants and all parts of one process share: bytes of memory, threads,
//! waiting callers, and the free space of its disks.
//!
//! This crate knows the tenants that share something and nothing of what they do with it.

#![forbid(unsafe_code)]

mod budget;
mod disk;
mod memory;
mod with_permit;

pub use budget::{Budget, Permit, PermitError};
pub use disk::{DiskLow, DiskMonitor, DiskReserve};
pub use memory::MemoryBudget;
pub use with_permit::WithPermit;

/// The resources that every part of one process shares; clones share them too.
#[derive(Clone, Debug)]
pub struct SharedResources {
    /// Bytes that are buffered for tenants.
    pub memory: MemoryBudget,
    /// The free space of the disks that grow with what is stored.
    pub disk: DiskMonitor,
}

impl SharedResources {
    pub fn new(max_buffer_bytes: u64, reserve: DiskReserve) -> SharedResources {
        SharedResources {
            memory: MemoryBudget::new(max_buffer_bytes),
            disk: DiskMonitor::new(reserve),
        }
    }
}
