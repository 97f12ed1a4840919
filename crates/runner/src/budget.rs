//! Admission to a resource that all tenants share: bytes in memory, threads, waiting callers.
//!
//! A permit is taken before the resource is used and returned when it is dropped. A tenant may take
//! as much as is left after it: one alone gets half, two a third each, and however many there are,
//! the next one finds some. So no tenant can keep the others out. Nothing is queued: who finds too
//! little may wait for a bounded time and is then refused; who asks for more than half is refused
//! at once, because waiting would not help.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
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
    refused: AtomicU64,
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

/// Why there is no permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    #[error("the budget, or the tenant's share of it, is in use")]
    InUse,
    #[error("{needed} is more than one tenant can ever have, which is {most}")]
    TooMuch { needed: u64, most: u64 },
}

impl Budget {
    pub fn new(capacity: u64) -> Budget {
        let shared = Shared {
            capacity,
            used: Mutex::default(),
            returned: Notify::new(),
            refused: AtomicU64::default(),
        };
        Budget { shared: Arc::new(shared) }
    }

    pub fn capacity(&self) -> u64 {
        self.shared.capacity
    }

    pub fn used(&self) -> u64 {
        self.lock().total
    }

    /// How often a permit was denied.
    pub fn refused(&self) -> u64 {
        self.shared.refused.load(Ordering::Relaxed)
    }

    /// The most that one tenant can have, when nobody else has anything.
    pub fn share(&self) -> u64 {
        self.shared.capacity.div_ceil(2)
    }

    pub fn try_acquire(&self, tenant: &TenantId, amount: u64) -> Result<Permit, Denied> {
        let mut permit = Permit { budget: self.clone(), tenant: tenant.clone(), amount: 0 };
        permit.try_grow(amount)?;
        Ok(permit)
    }

    /// Waits at most `wait` for others to return enough.
    pub async fn acquire(
        &self,
        tenant: &TenantId,
        amount: u64,
        wait: Duration,
    ) -> Result<Permit, Denied> {
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

    pub fn try_grow(&mut self, more: u64) -> Result<(), Denied> {
        let grown = self.grow_now(more);
        if grown.is_err() {
            self.budget.shared.refused.fetch_add(1, Ordering::Relaxed);
        }
        grown
    }

    /// Waits at most `wait`; what is held already stays held meanwhile.
    pub async fn grow(&mut self, more: u64, wait: Duration) -> Result<(), Denied> {
        let grown = self.grow_in_time(more, wait).await;
        if grown.is_err() {
            self.budget.shared.refused.fetch_add(1, Ordering::Relaxed);
        }
        grown
    }

    async fn grow_in_time(&mut self, more: u64, wait: Duration) -> Result<(), Denied> {
        let deadline = Instant::now() + wait;
        loop {
            let budget = self.budget.clone();
            let mut returned = std::pin::pin!(budget.shared.returned.notified());
            // Registered before the look, so that nothing returned in between is missed.
            returned.as_mut().enable();
            match self.grow_now(more) {
                Err(Denied::InUse) => {
                    timeout_at(deadline, returned).await.map_err(|_| Denied::InUse)?
                }
                grown => return grown,
            }
        }
    }

    fn grow_now(&mut self, more: u64) -> Result<(), Denied> {
        if more == 0 {
            return Ok(());
        }
        let (needed, most) = (self.amount.saturating_add(more), self.budget.share());
        if needed > most {
            return Err(Denied::TooMuch { needed, most });
        }
        let mut used = self.budget.lock();
        let own = used.by_tenant.get(&self.tenant).copied().unwrap_or(0) + more;
        let Some(left) = self.budget.shared.capacity.checked_sub(used.total + more) else {
            return Err(Denied::InUse);
        };
        // Of an odd number, the tenant has the larger half.
        if own > left + 1 {
            return Err(Denied::InUse);
        }
        used.total += more;
        used.by_tenant.insert(self.tenant.clone(), own);
        drop(used);
        self.amount = needed;
        Ok(())
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
        let all: Vec<Permit> =
            names.iter().filter_map(|name| budget.try_acquire(&tenant(name), 1).ok()).collect();
        assert_eq!((all.len(), budget.used()), (5, 5));
    }

    #[test]
    fn what_exceeds_a_share_is_refused_for_good() {
        let budget = Budget::new(11);
        assert_eq!(
            budget.try_acquire(&tenant("a"), 7).err(),
            Some(Denied::TooMuch { needed: 7, most: 6 })
        );
        let mut large = budget.try_acquire(&tenant("a"), 6).expect("a whole share");
        assert_eq!(large.try_grow(1), Err(Denied::TooMuch { needed: 7, most: 6 }));
        assert_eq!(
            budget.try_acquire(&tenant("a"), 1).err(),
            Some(Denied::InUse),
            "in use by the tenant itself"
        );
        assert!(budget.try_acquire(&tenant("b"), 3).is_ok(), "others find some all the same");
        assert_eq!(budget.try_acquire(&tenant("b"), 4).err(), Some(Denied::InUse));
        assert_eq!(budget.refused(), 4);
    }

    #[tokio::test]
    async fn a_waiting_caller_gets_what_is_returned_or_is_refused() {
        let budget = Budget::new(2);
        let held = budget.try_acquire(&tenant("a"), 1).expect("free");
        assert_eq!(budget.acquire(&tenant("a"), 1, NO_WAIT).await.err(), Some(Denied::InUse));
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
