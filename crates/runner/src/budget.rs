//! Admission to a resource that all tenants share: bytes in memory, threads, waiting callers.
//!
//! A permit is taken before the resource is used and returned when it is dropped. A tenant may take as much as is left
//! after it: one alone gets half, two get a third each, and however many there are, the next one finds some. So no tenant
//! can keep the others out. Nothing is queued: who finds too little may wait for a bounded time and is then refused.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use store::TenantId;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// A shared amount of something; clones share it.
#[derive(Clone, Debug)]
pub struct Budget {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    capacity: u64,
    used: Mutex<Used>,
    /// Notified when something is returned.
    returned: Notify,
}

#[derive(Debug, Default)]
struct Used {
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

/// The budget, or the tenant's share of it, is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the shared budget is used up")]
pub struct Exhausted;

impl Budget {
    pub fn new(capacity: u64) -> Budget {
        let shared = Shared { capacity, used: Mutex::default(), returned: Notify::new() };
        Budget { shared: Arc::new(shared) }
    }

    pub fn capacity(&self) -> u64 {
        self.shared.capacity
    }

    pub fn used(&self) -> u64 {
        self.lock().total
    }

    pub fn try_acquire(&self, tenant: &TenantId, amount: u64) -> Result<Permit, Exhausted> {
        let mut permit = Permit { budget: self.clone(), tenant: tenant.clone(), amount: 0 };
        permit.try_grow(amount)?;
        Ok(permit)
    }

    /// Waits at most `wait` for others to return enough.
    pub async fn acquire(&self, tenant: &TenantId, amount: u64, wait: Duration) -> Result<Permit, Exhausted> {
        let mut permit = Permit { budget: self.clone(), tenant: tenant.clone(), amount: 0 };
        permit.grow(amount, wait).await?;
        Ok(permit)
    }

    fn lock(&self) -> MutexGuard<'_, Used> {
        self.shared.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Permit {
    /// The amount held.
    pub fn amount(&self) -> u64 {
        self.amount
    }

    pub fn try_grow(&mut self, more: u64) -> Result<(), Exhausted> {
        let capacity = self.budget.shared.capacity;
        let mut used = self.budget.lock();
        let own = used.by_tenant.get(&self.tenant).copied().unwrap_or(0);
        let free = capacity.saturating_sub(used.total);
        // What exceeds a share, or even the whole, is let in only while nobody else holds anything. It is counted as
        // the whole then, so that it runs alone.
        let granted = match own.saturating_add(more) <= free {
            true => more,
            false if used.total == self.amount => more.min(free),
            false => return Err(Exhausted),
        };
        if granted == 0 {
            return Ok(());
        }
        used.total += granted;
        *used.by_tenant.entry(self.tenant.clone()).or_default() += granted;
        drop(used);
        self.amount += granted;
        Ok(())
    }

    /// Waits at most `wait`; what is held already stays held meanwhile.
    pub async fn grow(&mut self, more: u64, wait: Duration) -> Result<(), Exhausted> {
        let deadline = Instant::now() + wait;
        loop {
            let budget = self.budget.clone();
            let mut returned = std::pin::pin!(budget.shared.returned.notified());
            // Registered before the look, so that nothing returned in between is missed.
            returned.as_mut().enable();
            if self.try_grow(more).is_ok() {
                return Ok(());
            }
            timeout_at(deadline, returned).await.map_err(|_| Exhausted)?;
        }
    }

    /// Returns what is above `amount`.
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
        self.budget.shared.returned.notify_waiters();
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
    fn no_tenant_takes_all_and_the_next_one_always_finds_some() {
        let budget = Budget::new(12);
        let first = take_all(&budget, "first");
        let second = take_all(&budget, "second");
        let third = take_all(&budget, "third");
        assert_eq!([first.len(), second.len(), third.len()], [6, 3, 2]);
        drop((first, second, third));
        assert!(budget.lock().by_tenant.is_empty(), "no idle tenant is remembered");
        assert_eq!(take_all(&budget, "third").len(), 6);
    }

    #[test]
    fn the_capacity_holds_however_many_tenants_come() {
        let budget = Budget::new(5);
        let names: Vec<String> = (0..9).map(|number| format!("t{number}")).collect();
        let all: Vec<Permit> = names.iter().filter_map(|name| budget.try_acquire(&tenant(name), 1).ok()).collect();
        assert_eq!((all.len(), budget.used()), (5, 5));
    }

    #[test]
    fn what_exceeds_a_share_runs_alone() {
        let budget = Budget::new(10);
        let large = budget.try_acquire(&tenant("a"), 50).expect("nobody else is there");
        assert_eq!((large.amount(), budget.used()), (10, 10));
        assert!(budget.try_acquire(&tenant("b"), 1).is_err());
        drop(large);
        let small = budget.try_acquire(&tenant("b"), 1).expect("free again");
        assert!(budget.try_acquire(&tenant("a"), 8).is_ok());
        assert!(budget.try_acquire(&tenant("a"), 10).is_err());
        drop(small);
    }

    #[tokio::test]
    async fn a_waiting_caller_gets_what_is_returned_or_is_refused() {
        let budget = Budget::new(2);
        let held = budget.try_acquire(&tenant("a"), 1).expect("free");
        assert_eq!(budget.acquire(&tenant("a"), 1, NO_WAIT).await.err(), Some(Exhausted));
        let waiting = tokio::spawn({
            let budget = budget.clone();
            async move { budget.acquire(&tenant("a"), 1, Duration::from_secs(60)).await.map(|permit| permit.amount()) }
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
