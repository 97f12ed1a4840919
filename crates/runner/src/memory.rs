//! The memory that requests may take in this process: everything that is buffered for a tenant has
//! a permit for it.

use std::time::Duration;

use store::{Execution, TenantId};
use uuid::Uuid;

use crate::RunError;
use crate::budget::{Budget, Denied, Permit};
use crate::halt::Halt;
use crate::held::Held;
use crate::runner::Runner;

/// How long a caller waits for memory that others return.
const WAIT: Duration = Duration::from_secs(2);

/// A document is read, turned into another form and sent: two copies of it exist at once.
const COPIES: u64 = 2;

impl Runner {
    pub fn memory(&self) -> &Budget {
        &self.memory
    }

    /// A permit to buffer that many bytes for a tenant.
    pub async fn reserve(&self, tenant: &TenantId, bytes: u64) -> Result<Permit, RunError> {
        Ok(self.memory.acquire(tenant, bytes, WAIT).await?)
    }

    /// The same for more of what a permit is held for already.
    pub async fn reserve_more(&self, permit: &mut Permit, bytes: u64) -> Result<(), RunError> {
        Ok(permit.grow(bytes, WAIT).await?)
    }

    /// An execution with its documents; `None` when the tenant has no such execution.
    pub async fn read_execution(
        &self,
        tenant: &TenantId,
        id: Uuid,
    ) -> Result<Option<Held<Execution>>, RunError> {
        let Some(bytes) = self.store.execution_bytes(tenant, id).await? else { return Ok(None) };
        let permit = self.reserve(tenant, bytes * COPIES).await?;
        let execution = self.store.get_execution(tenant, id).await?;
        Ok(execution.map(|execution| Held::new(execution, permit)))
    }
}

impl From<Denied> for RunError {
    fn from(denied: Denied) -> RunError {
        match denied {
            Denied::InUse => RunError::NoMemory,
            Denied::TooMuch { needed, most } => RunError::ExceedsMemory { needed, most },
        }
    }
}

/// For an execution that was accepted: what is in use now may be free later or elsewhere.
impl From<Denied> for Halt {
    fn from(denied: Denied) -> Halt {
        match denied {
            Denied::InUse => Halt::unready("The server's memory for requests was in use."),
            Denied::TooMuch { needed, most } => Halt::refused(format!(
                "The skill and its input take {needed} bytes of the server's memory, and a tenant can have {most}."
            )),
        }
    }
}

/// Waits as callers do.
pub async fn reserve(memory: &Budget, tenant: &TenantId, bytes: u64) -> Result<Permit, Halt> {
    Ok(memory.acquire(tenant, bytes, WAIT).await?)
}
