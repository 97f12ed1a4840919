//! A budget of a resource that all tenants share: bytes in memory, threads, waiting callers.
//!
//! A permit is taken before the resource is used and returned when it is dropped. A tenant may hold
//! at most as much as is left over: one tenant alone gets half, two get a third each, and however
//! many there are, the next one finds some. So no tenant can starve the others. There is no queue:
//! a request that finds too little waits for a bounded time and is then refused; a request for more
//! than half is refused at once, because waiting would not help.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use store::TenantId;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// A shared amount of one resource; clones share it.
#[derive(Clone, Debug)]
pub struct Budget {
    state: Arc<BudgetState>,
}

#[derive(Debug)]
struct BudgetState {
    capacity: u64,
    used: Mutex<BudgetUse>,
    /// Notified when a permit returns its amount.
    returned: Notify,
    refused: AtomicU64,
}

#[derive(Debug, Default)]
struct BudgetUse {
    total: u64,
    by_tenant: HashMap<TenantId, u64>,
}

/// A part of the budget, returned when this is dropped.
#[must_use = "the permit is returned when this is dropped"]
#[derive(Debug)]
pub struct Permit {
    budget: Budget,
    tenant: TenantId,
    amount: u64,
}

/// Why there is no permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PermitError {
    /// It may succeed later.
    #[error("the budget, or the tenant's share of it, is in use")]
    InUse,
    /// It can never succeed.
    #[error("{needed} exceeds the maximum share of one tenant, which is {max}")]
    ExceedsShare { needed: u64, max: u64 },
}

impl Budget {
    pub fn new(capacity: u64) -> Budget {
        let state = BudgetState {
            capacity,
            used: Mutex::default(),
            returned: Notify::new(),
            refused: AtomicU64::default(),
        };
        Budget { state: Arc::new(state) }
    }

    pub fn capacity(&self) -> u64 {
        self.state.capacity
    }

    pub fn used(&self) -> u64 {
        self.lock().total
    }

    /// How many requests for a permit were refused.
    pub fn refused(&self) -> u64 {
        self.state.refused.load(Ordering::Relaxed)
    }

    /// What one tenant can hold at most, while no other tenant holds anything.
    pub fn max_share(&self) -> u64 {
        self.state.capacity.div_ceil(2)
    }

    pub fn try_acquire(&self, tenant: &TenantId, amount: u64) -> Result<Permit, PermitError> {
        let mut permit = Permit { budget: self.clone(), tenant: tenant.clone(), amount: 0 };
        permit.try_grow(amount)?;
        Ok(permit)
    }

    /// Waits at most `timeout` for others to return enough.
    pub async fn acquire(
        &self,
        tenant: &TenantId,
        amount: u64,
        timeout: Duration,
    ) -> Result<Permit, PermitError> {
        let mut permit = Permit { budget: self.clone(), tenant: tenant.clone(), amount: 0 };
        permit.grow(amount, timeout).await?;
        Ok(permit)
    }

    fn lock(&self) -> MutexGuard<'_, BudgetUse> {
        self.state.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Permit {
    /// The amount held.
    pub fn amount(&self) -> u64 {
        self.amount
    }

    pub fn try_grow(&mut self, more: u64) -> Result<(), PermitError> {
        let grown = self.try_grow_uncounted(more);
        if grown.is_err() {
            self.budget.state.refused.fetch_add(1, Ordering::Relaxed);
        }
        grown
    }

    /// Waits at most `timeout`; the permit keeps its amount meanwhile.
    pub async fn grow(&mut self, more: u64, timeout: Duration) -> Result<(), PermitError> {
        let grown = self.grow_until(more, Instant::now() + timeout).await;
        if grown.is_err() {
            self.budget.state.refused.fetch_add(1, Ordering::Relaxed);
        }
        grown
    }

    async fn grow_until(&mut self, more: u64, deadline: Instant) -> Result<(), PermitError> {
        loop {
            let budget = self.budget.clone();
            let mut returned = std::pin::pin!(budget.state.returned.notified());
            // Registered before the check, so that an amount returned in between is not missed.
            returned.as_mut().enable();
            match self.try_grow_uncounted(more) {
                Err(PermitError::InUse) => {
                    timeout_at(deadline, returned).await.map_err(|_| PermitError::InUse)?
                }
                grown => return grown,
            }
        }
    }

    fn try_grow_uncounted(&mut self, more: u64) -> Result<(), PermitError> {
        if more == 0 {
            return Ok(());
        }
        let (needed, max) = (self.amount.saturating_add(more), self.budget.max_share());
        if needed > max {
            return Err(PermitError::ExceedsShare { needed, max });
        }
        let mut used = self.budget.lock();
        let own = used.by_tenant.get(&self.tenant).copied().unwrap_or(0) + more;
        let Some(left) = self.budget.state.capacity.checked_sub(used.total + more) else {
            return Err(PermitError::InUse);
        };
        // With an odd capacity, the tenant gets the larger half.
        if own > left + 1 {
            return Err(PermitError::InUse);
        }
        used.total += more;
        used.by_tenant.insert(self.tenant.clone(), own);
        drop(used);
        self.amount = needed;
        Ok(())
    }

    /// Returns everything above `amount`.
    pub fn shrink_to(&mut self, amount: u64) {
        let surplus = self.amount.saturating_sub(amount);
        if surplus == 0 {
            return;
        }
        self.amount -= surplus;
        let mut used = self.budget.lock();
        used.total -= surplus;
        if let Some(own) = used.by_tenant.get_mut(&self.tenant) {
            *own -= surplus;
            if *own == 0 {
                used.by_tenant.remove(&self.tenant);
            }
        }
        drop(used);
        self.budget.state.returned.notify_waiters();
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_WAIT: Duration = Duration::ZERO;

    fn tenant(name: &str) -> TenantId {
        TenantId::try_from(name).expect("a tenant's name")
    }

    fn take_all(budget: &Budget, name: &str) -> Vec<Permit> {
        std::iter::from_fn(|| budget.try_acquire(&tenant(name), 1).ok()).collect()
    }

    #[test]
    fn no_tenant_takes_everything_and_the_next_tenant_finds_some() {
        let budget = Budget::new(12);
        let first = take_all(&budget, "first");
        let second = take_all(&budget, "second");
        let third = take_all(&budget, "third");
        assert_eq!([first.len(), second.len(), third.len()], [6, 3, 2]);
        drop((first, second, third));
        assert!(budget.lock().by_tenant.is_empty(), "idle tenants are removed");
        assert_eq!(take_all(&budget, "third").len(), 6);
    }

    #[test]
    fn the_capacity_is_never_exceeded() {
        let budget = Budget::new(5);
        let names: Vec<String> = (0..9).map(|number| format!("t{number}")).collect();
        let all: Vec<Permit> =
            names.iter().filter_map(|name| budget.try_acquire(&tenant(name), 1).ok()).collect();
        assert_eq!((all.len(), budget.used()), (5, 5));
    }

    #[test]
    fn a_request_above_the_maximum_share_is_refused_at_once() {
        let budget = Budget::new(11);
        assert_eq!(
            budget.try_acquire(&tenant("a"), 7).err(),
            Some(PermitError::ExceedsShare { needed: 7, max: 6 })
        );
        let mut large = budget.try_acquire(&tenant("a"), 6).expect("a whole share");
        assert_eq!(large.try_grow(1), Err(PermitError::ExceedsShare { needed: 7, max: 6 }));
        assert_eq!(
            budget.try_acquire(&tenant("a"), 1).err(),
            Some(PermitError::InUse),
            "in use by the tenant itself"
        );
        assert!(budget.try_acquire(&tenant("b"), 3).is_ok(), "other tenants still find some");
        assert_eq!(budget.try_acquire(&tenant("b"), 4).err(), Some(PermitError::InUse));
        assert_eq!(budget.refused(), 4);
    }

    #[tokio::test]
    async fn a_waiting_request_gets_a_returned_amount_or_times_out() {
        let budget = Budget::new(2);
        let held = budget.try_acquire(&tenant("a"), 1).expect("free");
        assert_eq!(budget.acquire(&tenant("a"), 1, NO_WAIT).await.err(), Some(PermitError::InUse));
        let waiting = tokio::spawn({
            let budget = budget.clone();
            async move {
                budget
                    .acquire(&tenant("a"), 1, Duration::from_secs(60))
                    .await
                    .map(|permit| permit.amount())
            }
        });
        tokio::task::yield_now().await;
        drop(held);
        assert_eq!(waiting.await.expect("no panic"), Ok(1));
    }

    #[test]
    fn a_permit_shrinks_and_grows() {
        let budget = Budget::new(100);
        let mut permit = budget.try_acquire(&tenant("a"), 40).expect("free");
        permit.shrink_to(10);
        assert_eq!((permit.amount(), budget.used()), (10, 10));
        permit.try_grow(30).expect("within the share");
        assert_eq!(budget.used(), 40);
    }
}
