//! The leases this process holds, and the heartbeat that keeps them. A run whose lease was taken
//! away, or that somebody asked to cancel, is told to stop.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use store::{Lease, PendingRequests, Store};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Why a run was told to stop before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    Cancelled,
    /// The lease belongs to somebody else by now; the result will not be accepted.
    Fenced,
    Shutdown,
}

#[derive(Default)]
pub struct Leases {
    held: Mutex<HashMap<Uuid, Held>>,
}

#[derive(Clone)]
struct Held {
    lease: Lease,
    stop: CancellationToken,
    reason: Arc<OnceLock<StopReason>>,
    /// Somebody follows the log.
    watched: CancellationToken,
}

/// A lease that is kept alive until this is dropped.
pub struct Hold {
    leases: Arc<Leases>,
    held: Held,
}

impl Leases {
    /// Keeps a lease. `None` when this very lease is kept already: the database forgot in a crash
    /// that it gave it to us, and gave it again. What was begun under it goes on.
    pub fn hold(self: &Arc<Self>, lease: Lease) -> Option<Hold> {
        let mut all = self.lock();
        if all.get(&lease.execution_id).is_some_and(|held| held.lease == lease && !held.is_fenced())
        {
            return None;
        }
        let held = Held {
            lease,
            stop: CancellationToken::new(),
            reason: Arc::default(),
            watched: CancellationToken::new(),
        };
        if let Some(lost) = all.insert(held.lease.execution_id, held.clone()) {
            // This process lost the lease and has now been given it anew: what runs under the old
            // one is too late.
            lost.stop(StopReason::Fenced);
        }
        Some(Hold { leases: Arc::clone(self), held })
    }

    /// Tells one run to stop; nothing happens when it does not run here.
    pub fn stop(&self, id: Uuid, reason: StopReason) {
        if let Some(held) = self.lock().get(&id) {
            held.stop(reason);
        }
    }

    /// Tells one run that somebody follows its log; nothing happens when it does not run here.
    pub fn watch(&self, id: Uuid) {
        if let Some(held) = self.lock().get(&id) {
            held.watched.cancel();
        }
    }

    pub fn stop_all(&self, reason: StopReason) {
        self.lock().values().for_each(|held| held.stop(reason));
    }

    /// Extends every held lease once, and stops what is no longer ours or no longer wanted.
    pub async fn beat(&self, store: &Store, lease_ms: i64) {
        let leases: Vec<Lease> = self.lock().values().map(|held| held.lease.clone()).collect();
        if leases.is_empty() {
            return;
        }
        let beat = match store.heartbeat(&leases, lease_ms).await {
            Ok(beat) => beat,
            // The runs go on: whether their leases lasted is decided when they are recorded.
            Err(error) => {
                return tracing::warn!(%error, "the heartbeat of {} leases failed", leases.len());
            }
        };
        for id in beat.cancel_requested {
            self.stop(id, StopReason::Cancelled);
        }
        for id in beat.watched {
            self.watch(id);
        }
        for lease in leases.iter().filter(|lease| !beat.held.contains(&lease.execution_id)) {
            // A run that was recorded while the heartbeat was under way is gone from the map by
            // now.
            self.stop(lease.execution_id, StopReason::Fenced);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Uuid, Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Beats three times in the life of a lease, so that two may fail.
pub async fn heartbeat(
    leases: Arc<Leases>,
    store: Store,
    lease: Duration,
    closed: CancellationToken,
) {
    let lease_ms = i64::try_from(lease.as_millis()).unwrap_or(i64::MAX);
    while closed.run_until_cancelled(tokio::time::sleep(lease / 3)).await.is_some() {
        leases.beat(&store, lease_ms).await;
    }
}

impl Held {
    fn is_fenced(&self) -> bool {
        self.reason.get() == Some(&StopReason::Fenced)
    }

    fn stop(&self, reason: StopReason) {
        // The first reason is the true one.
        let _ = self.reason.set(reason);
        self.stop.cancel();
    }
}

impl Hold {
    pub fn lease(&self) -> &Lease {
        &self.held.lease
    }

    pub fn stop_token(&self) -> CancellationToken {
        self.held.stop.clone()
    }

    /// Cancelled when somebody follows the log.
    pub fn watched_token(&self) -> CancellationToken {
        self.held.watched.clone()
    }

    /// Whether somebody else has it by now, or this process has it anew.
    pub fn is_lost(&self) -> bool {
        self.held.is_fenced()
    }

    pub fn apply(&self, asked: PendingRequests) {
        if asked.cancel_requested {
            self.held.stop(StopReason::Cancelled);
        }
        if asked.watched {
            self.held.watched.cancel();
        }
    }

    pub fn stop_reason(&self) -> Option<StopReason> {
        self.held.reason.get().copied()
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut held = self.leases.lock();
        let id = self.held.lease.execution_id;
        if held.get(&id).is_some_and(|held| held.lease.token == self.held.lease.token) {
            held.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_given_anew_outlives_the_end_of_the_old_one() {
        let leases = Arc::new(Leases::default());
        let lease = |token| Lease {
            execution_id: Uuid::nil(),
            tenant: "acme".parse().expect("a tenant's name"),
            owner: "me".to_owned(),
            token,
            webhook: false,
        };
        let hold = |token| leases.hold(lease(token)).expect("not held yet");
        let (old, new) = (hold(1), hold(2));
        assert!(leases.hold(lease(2)).is_none(), "it is the same lease");
        assert_eq!((old.stop_reason(), new.stop_reason()), (Some(StopReason::Fenced), None));
        drop(old);
        leases.stop(Uuid::nil(), StopReason::Cancelled);
        assert_eq!(new.stop_reason(), Some(StopReason::Cancelled));
        drop(new);
        assert!(leases.lock().is_empty());
    }
}
