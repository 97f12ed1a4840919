//! Step two, load: may the skill run now, and its content by digest, from the catalogue.

mod trust_check;

use std::sync::Arc;

use admission::PermitError;
use catalogue::{LoadError, LoadedSkill, reason_not_runnable};

use self::trust_check::{VerifiedTrust, check_trust};
use super::accept::AcceptedRequest;
use super::attempt::Origin;
use super::stop::Stop;
use super::timing::timed;
use crate::retry::retry_transient;
use crate::runner::Runner;

/// A skill that may run, unpacked.
pub(crate) struct Loaded {
    pub skill: Arc<LoadedSkill>,
    pub trust: VerifiedTrust,
}

pub(crate) async fn load(
    runner: &Runner,
    accepted: &AcceptedRequest,
    origin: Origin,
    load_ms: &mut f64,
) -> Result<Loaded, Stop> {
    if let Some(refusal) = &accepted.refusal {
        return Err(refusal.clone());
    }
    match origin {
        // Accept has read the review status just now.
        Origin::Accepted => {}
        Origin::Claimed => check_review(runner, accepted).await?,
    }
    let trust = check_trust(runner, accepted).await?;
    let loading = runner.catalogue.load_skill(&accepted.tenant, &accepted.digest);
    let skill = timed(load_ms, loading).await?;
    Ok(Loaded { skill, trust })
}

/// The skill may have been held for review or rejected while the execution was queued.
async fn check_review(runner: &Runner, accepted: &AcceptedRequest) -> Result<(), Stop> {
    let read = retry_transient("reading a skill's review status", || {
        runner.store.content_status(&accepted.tenant, &accepted.digest)
    });
    let status = match read.await {
        Ok(retried) => retried.value,
        Err(error) => {
            tracing::error!(execution_id = %accepted.id, %error, "a skill's status could not be read");
            return Err(Stop::unready("The skill's status could not be read."));
        }
    };
    match reason_not_runnable(status, &accepted.skill_name, &accepted.skill_version) {
        Some(reason) => Err(Stop::refused(reason)),
        None => Ok(()),
    }
}

impl From<LoadError> for Stop {
    fn from(error: LoadError) -> Stop {
        match error {
            LoadError::Deleted => Stop::refused("The skill was deleted before it could run."),
            LoadError::Altered => Stop::refused(
                "The stored archive does not match the skill's digest; upload the skill again.",
            ),
            LoadError::UnusableSchema(sentence) => Stop::refused(sentence),
            LoadError::Memory(error) => Stop::from(error),
            LoadError::WorkersBusy => {
                Stop::unready("The skill's schemas could not be compiled in time.")
            }
            LoadError::Blobs => Stop::unready("The skill's archive could not be read."),
            LoadError::TaskPanicked => Stop::lost("The skill's archive could not be read."),
        }
    }
}

/// For an accepted execution: memory that is in use now may be free later or on another server.
impl From<PermitError> for Stop {
    fn from(error: PermitError) -> Stop {
        match error {
            PermitError::InUse => Stop::unready("The server's memory for requests was in use."),
            PermitError::ExceedsShare { needed, max } => Stop::refused(format!(
                "The skill and its input take {needed} bytes of the server's memory, and a tenant can have {max}."
            )),
        }
    }
}
