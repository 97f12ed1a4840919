//! Whether, and where, a request gets in: limits of the server and of the tenant, a slot here or a
//! place in the queue.

use std::sync::Arc;
use std::time::Duration;

use admission::Permit;
use moka::future::Cache;
use store::{
    Execution, Idempotency, InitialState, InsertResult, Store, StoreError, TenantId, TenantPolicy,
};
use tokio::sync::OwnedSemaphorePermit;
use uuid::Uuid;

use crate::accept::{Order, accept};
use crate::failpoint::{Point, reach};
use crate::runner::Runner;
use crate::{Caller, Request, RunError};

/// How long a changed tenant policy may go unnoticed.
const POLICY_TTL: Duration = Duration::from_secs(5);
/// How soon a caller whose tenant's queue is full may ask again. Nobody knows when a place becomes
/// free.
const QUEUE_FULL_RETRY_S: u64 = 5;

/// What tenants may do, so that one without limits costs no look at the database.
pub struct Policies {
    known: Cache<TenantId, Arc<TenantPolicy>>,
}

impl Policies {
    pub fn new() -> Policies {
        Policies { known: Cache::builder().max_capacity(10_000).time_to_live(POLICY_TTL).build() }
    }

    pub(crate) async fn of(
        &self,
        store: &Store,
        tenant: &TenantId,
    ) -> Result<Arc<TenantPolicy>, StoreError> {
        if let Some(policy) = self.known.get(tenant).await {
            return Ok(policy);
        }
        let found = store.get_tenant(tenant).await?;
        let policy = Arc::new(found.map(|tenant| tenant.policy).unwrap_or_default());
        self.known.insert(tenant.clone(), Arc::clone(&policy)).await;
        Ok(policy)
    }
}

/// An order that got in.
pub struct Admitted {
    pub order: Order,
    policy: Arc<TenantPolicy>,
}

impl Runner {
    pub(crate) async fn admit(
        &self,
        caller: &Caller,
        request: Request,
    ) -> Result<Admitted, RunError> {
        if self.closing.is_cancelled() {
            return Err(RunError::ShuttingDown);
        }
        self.disk.check()?;
        let policy = self.policies.of(&self.store, &caller.tenant).await?;
        let order = accept(&self.store, caller, request).await?;
        if policy.rate_per_minute.is_some()
            && let Err(wait) =
                self.store.take_rate_limit_token(&caller.tenant, store::now()).await?
        {
            return Err(RunError::RateLimited { retry_after_s: wait.as_secs_f64().ceil() as u64 });
        }
        Ok(Admitted { order, policy })
    }

    /// For a caller who is going to wait for an end; nobody else needs one.
    pub fn waiter_slot(&self, tenant: &TenantId) -> Result<Permit, RunError> {
        self.waiter_slots.try_acquire(tenant, 1).map_err(|_| RunError::TooBusy)
    }

    /// The earlier execution that a request repeats which does not get in by itself: its skill may
    /// be gone since. A key that was used for another body is an error even then.
    pub(crate) async fn repeated(
        &self,
        caller: &Caller,
        refusal: RunError,
        idempotency: Option<&Idempotency>,
    ) -> Result<Execution, RunError> {
        let earlier = match (&refusal, idempotency) {
            (RunError::UnknownSkill | RunError::InvalidRequest(_), Some(idempotency)) => {
                self.store.find_by_idempotency_key(&caller.tenant, idempotency).await?
            }
            _ => None,
        };
        earlier.ok_or(refusal)
    }

    /// A slot, when there is one and the tenant may have it. A tenant with a limit on its
    /// concurrency always queues, because claiming is where running executions are counted.
    pub(crate) fn free_slot(&self, admitted: &Admitted) -> Option<OwnedSemaphorePermit> {
        match admitted.policy.max_concurrent {
            Some(_) => None,
            None => Arc::clone(&self.slots).try_acquire_owned().ok(),
        }
    }

    /// Leaves the order to whichever worker is free first. `awaited` says that a caller waits for
    /// its end.
    pub(crate) async fn enqueue(
        &self,
        admitted: Admitted,
        idempotency: Option<Idempotency>,
        awaited: bool,
    ) -> Result<Uuid, RunError> {
        let Admitted { order, policy } = admitted;
        let limited = policy.max_queued.is_some() || self.storage_is_limited(&order.tenant).await?;
        let mut row = order.row(InitialState::Queued, idempotency, &self.config.env_key);
        row.awaited = awaited;
        let inserted = match limited {
            false => self.store.insert_execution(&row).await?,
            true => self.store.insert_within_limits(&row).await?,
        };
        match inserted {
            InsertResult::Existing(earlier) => Ok(earlier.id),
            InsertResult::QueueFull => {
                Err(RunError::QueueFull { retry_after_s: QUEUE_FULL_RETRY_S })
            }
            InsertResult::New(_) => {
                reach(Point::Accept);
                self.queued.notify_one();
                Ok(order.id)
            }
        }
    }
}
