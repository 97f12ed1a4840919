//! The memory that requests and runs may take in this process: everything that is buffered for a
//! tenant has a permit for it.

use std::time::Duration;

use store::TenantId;

use crate::{Budget, Permit, PermitError};

/// How long a caller waits for memory that others return.
const RESERVE_TIMEOUT: Duration = Duration::from_secs(2);

/// A budget of bytes. Clones share it.
#[derive(Clone, Debug)]
pub struct MemoryBudget {
    budget: Budget,
}

impl MemoryBudget {
    pub fn new(capacity_bytes: u64) -> MemoryBudget {
        MemoryBudget { budget: Budget::new(capacity_bytes) }
    }

    /// The budget itself, for its numbers.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// A permit to buffer that many bytes for a tenant.
    pub async fn reserve(&self, tenant: &TenantId, bytes: u64) -> Result<Permit, PermitError> {
        self.budget.acquire(tenant, bytes, RESERVE_TIMEOUT).await
    }

    /// Extends a permit by that many bytes.
    pub async fn reserve_more(&self, permit: &mut Permit, bytes: u64) -> Result<(), PermitError> {
        permit.grow(bytes, RESERVE_TIMEOUT).await
    }
}
