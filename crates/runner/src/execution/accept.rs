//! Step one, accept: check the limits, resolve the skill, insert the row.
//!
//! A malformed request is an error and leaves no trace. A well-formed one that may not run becomes
//! an accepted request with a refusal, so that it is recorded like any other execution.

mod resolve;
pub(crate) mod sealed_env;
mod stored_request;
pub(crate) mod validation;

use std::sync::Arc;

use store::{Execution, Idempotency, InitialState, InsertResult, Micros, TenantId, TenantPolicy};
use tokio::sync::OwnedSemaphorePermit;
use uuid::Uuid;

use super::stop::Stop;
use crate::failpoint::{Point, reach};
use crate::queue::leases::Hold;
use crate::runner::Runner;
use crate::{Caller, Request, RunError};

/// `Retry-After` for a caller whose tenant's queue is full. When a queued execution will start is
/// unknown.
const QUEUE_FULL_RETRY_S: u64 = 5;

/// One execution that was accepted and has not run yet.
#[derive(Debug)]
pub(crate) struct AcceptedRequest {
    pub id: Uuid,
    pub tenant: TenantId,
    pub key_id: Option<Uuid>,
    pub skill_name: String,
    pub skill_version: String,
    /// Empty when the version does not exist.
    pub digest: String,
    pub request: Request,
    /// The skill declares that running it twice does no harm.
    pub idempotent: bool,
    /// Why it will not run, if that is known already.
    pub refusal: Option<Stop>,
    pub accepted_at: Micros,
}

/// An accepted request whose row is not inserted yet.
pub(crate) struct Admitted {
    pub accepted: AcceptedRequest,
    policy: Arc<TenantPolicy>,
}

/// Why an accepted request has no row of its own.
pub(crate) enum NotInserted {
    /// The same request was accepted before, as this execution.
    Repeated(Box<Execution>),
    Failed(RunError),
}

/// The first half of the step, before it is known where the execution will run: the limits of the
/// server and of the tenant, and the skill.
pub(crate) async fn admit(
    runner: &Runner,
    caller: &Caller,
    request: Request,
) -> Result<Admitted, RunError> {
    if runner.closing.is_cancelled() {
        return Err(RunError::ShuttingDown);
    }
    runner.disk.check()?;
    let policy = runner.policies.get(&runner.store, &caller.tenant).await?;
    let accepted = resolve::resolve(&runner.store, caller, request).await?;
    // Counted last: a request that was not accepted does not use up the tenant's rate.
    if policy.rate_per_minute.is_some()
        && let Err(wait) = runner.store.take_rate_limit_token(&caller.tenant, store::now()).await?
    {
        return Err(RunError::RateLimited { retry_after_s: wait.as_secs_f64().ceil() as u64 });
    }
    Ok(Admitted { accepted, policy })
}

/// A slot of this process, if one is free and the tenant may use it.
pub(crate) fn free_slot(runner: &Runner, admitted: &Admitted) -> Option<OwnedSemaphorePermit> {
    match admitted.policy.max_concurrent {
        // Running executions are counted where they are claimed, so a tenant with a limit on them
        // always takes the way through the queue.
        Some(_) => None,
        None => Arc::clone(&runner.slots).try_acquire_owned().ok(),
    }
}

/// The second half for an execution that runs here at once: inserts the row, already running and
/// with a lease of this process.
pub(crate) async fn insert_running(
    runner: &Runner,
    accepted: &AcceptedRequest,
    idempotency: Option<Idempotency>,
) -> Result<Hold, NotInserted> {
    // Started from the first moment: the job is sent as soon as a guest waits, so another worker
    // may take the execution over only if its skill is idempotent, or if this process says that no
    // job was sent.
    let initial_state = InitialState::Running {
        owner: runner.config.owner.clone(),
        lease_ms: runner.lease_ms(),
        started: true,
    };
    let row = accepted.to_row(initial_state, idempotency, &runner.config.env_key);
    let failed = |error| NotInserted::Failed(RunError::from(error));
    let limited = runner.storage_is_limited(&row.tenant).await.map_err(NotInserted::Failed)?;
    let inserted = match limited {
        true => runner.store.insert_within_limits(&row).await,
        false => runner.store.insert_execution(&row).await,
    };
    match inserted.map_err(failed)? {
        InsertResult::New(Some(lease)) => {
            reach(Point::Accept);
            runner.leases.hold(lease).ok_or(NotInserted::Failed(RunError::Broken))
        }
        // A running row has a lease and does not count as queued.
        InsertResult::New(None) | InsertResult::QueueFull => {
            Err(NotInserted::Failed(RunError::Broken))
        }
        InsertResult::Existing(earlier) => Err(NotInserted::Repeated(earlier)),
    }
}

/// The second half for an execution that waits for a worker: inserts the row as queued. `awaited`
/// says that a caller waits for its end.
pub(crate) async fn insert_queued(
    runner: &Runner,
    admitted: Admitted,
    idempotency: Option<Idempotency>,
    awaited: bool,
) -> Result<Uuid, RunError> {
    let Admitted { accepted, policy } = admitted;
    let limited =
        policy.max_queued.is_some() || runner.storage_is_limited(&accepted.tenant).await?;
    let mut row = accepted.to_row(InitialState::Queued, idempotency, &runner.config.env_key);
    row.awaited = awaited;
    let inserted = match limited {
        false => runner.store.insert_execution(&row).await?,
        true => runner.store.insert_within_limits(&row).await?,
    };
    match inserted {
        InsertResult::Existing(earlier) => Ok(earlier.id),
        InsertResult::QueueFull => Err(RunError::QueueFull { retry_after_s: QUEUE_FULL_RETRY_S }),
        InsertResult::New(_) => {
            reach(Point::Accept);
            runner.queued.notify_one();
            Ok(accepted.id)
        }
    }
}

/// The earlier execution that a request repeats which is not accepted any more, because its skill
/// was deleted since, for example. A key that was used with a different body is an error even then.
pub(crate) async fn find_repeated(
    runner: &Runner,
    caller: &Caller,
    error: RunError,
    idempotency: Option<&Idempotency>,
) -> Result<Execution, RunError> {
    let earlier = match (&error, idempotency) {
        (RunError::UnknownSkill | RunError::InvalidRequest(_), Some(idempotency)) => {
            runner.store.find_by_idempotency_key(&caller.tenant, idempotency).await?
        }
        _ => None,
    };
    earlier.ok_or(error)
}
