//! Executions that are read with their documents, under a permit for the memory.

use admission::WithPermit;
use store::{Execution, TenantId};
use uuid::Uuid;

use crate::RunError;
use crate::runner::Runner;

/// A document is read, converted and sent: two copies of it exist at once.
const COPIES: u64 = 2;

impl Runner {
    /// An execution with its documents; `None` when the tenant has no such execution.
    pub async fn read_execution(
        &self,
        tenant: &TenantId,
        id: Uuid,
    ) -> Result<Option<WithPermit<Execution>>, RunError> {
        let Some(bytes) = self.store.execution_bytes(tenant, id).await? else { return Ok(None) };
        let permit = self.memory.reserve(tenant, bytes * COPIES).await?;
        let execution = self.store.get_execution(tenant, id).await?;
        Ok(execution.map(|execution| WithPermit::new(execution, permit)))
    }
}
