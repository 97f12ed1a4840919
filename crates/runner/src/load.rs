//! Step two, load: the skill by its digest, from the catalogue.

use std::sync::Arc;

use admission::PermitError;
pub use catalogue::LoadedSkill as Skill;
use catalogue::{Catalogue, LoadError};
use store::TenantId;

use crate::halt::Halt;

pub async fn load(
    catalogue: &Catalogue,
    tenant: &TenantId,
    digest: &str,
) -> Result<Arc<Skill>, Halt> {
    catalogue.load_skill(tenant, digest).await.map_err(Halt::from)
}

impl From<LoadError> for Halt {
    fn from(error: LoadError) -> Halt {
        match error {
            LoadError::Deleted => Halt::refused("The skill was deleted before it could run."),
            LoadError::Altered => Halt::refused(
                "The stored archive does not match the skill's digest; upload the skill again.",
            ),
            LoadError::UnusableSchema(sentence) => Halt::refused(sentence),
            LoadError::Memory(error) => Halt::from(error),
            LoadError::WorkersBusy => {
                Halt::unready("The skill's schemas could not be compiled in time.")
            }
            LoadError::Blobs => Halt::unready("The skill's archive could not be read."),
            LoadError::TaskPanicked => Halt::lost("The skill's archive could not be read."),
        }
    }
}

/// For an accepted execution: memory that is in use now may be free later or on another server.
impl From<PermitError> for Halt {
    fn from(error: PermitError) -> Halt {
        match error {
            PermitError::InUse => Halt::unready("The server's memory for requests was in use."),
            PermitError::ExceedsShare { needed, max } => Halt::refused(format!(
                "The skill and its input take {needed} bytes of the server's memory, and a tenant can have {max}."
            )),
        }
    }
}
