//! The leases that this process holds, and the heartbeat that extends them. A run whose lease was
//! lost, or that a caller cancelled, is stopped.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use store::{Lease, PendingRequests, Store};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Heartbeats in the time of one lease, so that two of them may fail.
const HEARTBEATS_PER_LEASE: u32 = 3;

/// Why a run is stopped before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopReason {
    Cancelled,
    /// Another worker has the lease by now; the result will not be accepted.
    Fenced,
    Shutdown,
}

/// The leases of this process, by execution.
#[derive(Default)]
pub(crate) struct Leases {
    entries: Mutex<HashMap<Uuid, LeaseEntry>>,
}

#[derive(Clone)]
struct LeaseEntry {
    lease: Lease,
    stop: CancellationToken,
    reason: Arc<OnceLock<StopReason>>,
    /// Cancelled when a subscriber follows the events.
    watched: CancellationToken,
}

/// A lease that the heartbeat extends until this is dropped.
pub(crate) struct Hold {
    leases: Arc<Leases>,
    entry: LeaseEntry,
}

impl Leases {
    /// Holds a lease. `None` when this very lease is held already: the database lost its claim in
    /// a crash, and granted the same one again. The attempt under it goes on.
    pub(crate) fn hold(self: &Arc<Self>, lease: Lease) -> Option<Hold> {
        let mut entries = self.lock();
        let is_same = |entry: &LeaseEntry| entry.lease == lease && !entry.is_fenced();
        if entries.get(&lease.execution_id).is_some_and(is_same) {
            return None;
        }
        let entry = LeaseEntry {
            lease,
            stop: CancellationToken::new(),
            reason: Arc::default(),
            watched: CancellationToken::new(),
        };
        if let Some(lost) = entries.insert(entry.lease.execution_id, entry.clone()) {
            // This process lost its lease and claimed the execution again. The run under the old
            // fencing token could not be recorded any more.
            lost.stop(StopReason::Fenced);
        }
        Some(Hold { leases: Arc::clone(self), entry })
    }

    /// Stops one run; does nothing if it does not run in this process.
    pub(crate) fn stop(&self, id: Uuid, reason: StopReason) {
        if let Some(entry) = self.lock().get(&id) {
            entry.stop(reason);
        }
    }

    /// Makes one run write its log while it grows; does nothing if it does not run in this process.
    pub(crate) fn watch(&self, id: Uuid) {
        if let Some(entry) = self.lock().get(&id) {
            entry.watched.cancel();
        }
    }

    pub(crate) fn stop_all(&self, reason: StopReason) {
        self.lock().values().for_each(|entry| entry.stop(reason));
    }

    /// Extends every lease once, and stops the runs whose lease is lost or that are cancelled.
    pub(crate) async fn send_heartbeat(&self, store: &Store, lease_ms: i64) {
        let leases: Vec<Lease> = self.lock().values().map(|entry| entry.lease.clone()).collect();
        if leases.is_empty() {
            return;
        }
        let heartbeat = match store.heartbeat(&leases, lease_ms).await {
            Ok(heartbeat) => heartbeat,
            // The runs go on: whether their leases lasted is decided when they are recorded.
            Err(error) => {
                return tracing::warn!(%error, "the heartbeat of {} leases failed", leases.len());
            }
        };
        for id in heartbeat.cancel_requested {
            self.stop(id, StopReason::Cancelled);
        }
        for id in heartbeat.watched {
            self.watch(id);
        }
        // A run that was recorded during the heartbeat is not held either, and no entry of it is
        // left to be stopped.
        for lease in leases.iter().filter(|lease| !heartbeat.held.contains(&lease.execution_id)) {
            self.stop(lease.execution_id, StopReason::Fenced);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Uuid, LeaseEntry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends heartbeats until the runner is closed.
pub(crate) async fn run_heartbeat(
    leases: Arc<Leases>,
    store: Store,
    lease: Duration,
    closed: CancellationToken,
) {
    let lease_ms = i64::try_from(lease.as_millis()).unwrap_or(i64::MAX);
    let interval = lease / HEARTBEATS_PER_LEASE;
    while closed.run_until_cancelled(tokio::time::sleep(interval)).await.is_some() {
        leases.send_heartbeat(&store, lease_ms).await;
    }
}

impl LeaseEntry {
    fn is_fenced(&self) -> bool {
        self.reason.get() == Some(&StopReason::Fenced)
    }

    fn stop(&self, reason: StopReason) {
        // Only the first reason is kept: a stopped run may be fenced afterwards, which is not why
        // it stopped.
        let _ = self.reason.set(reason);
        self.stop.cancel();
    }
}

impl Hold {
    pub(crate) fn lease(&self) -> &Lease {
        &self.entry.lease
    }

    pub(crate) fn stop_token(&self) -> CancellationToken {
        self.entry.stop.clone()
    }

    /// Cancelled when a subscriber follows the events.
    pub(crate) fn watched_token(&self) -> CancellationToken {
        self.entry.watched.clone()
    }

    /// Whether another worker has the execution by now, or this process under a newer lease.
    pub(crate) fn is_lost(&self) -> bool {
        self.entry.is_fenced()
    }

    /// Applies what callers requested before this process held the lease.
    pub(crate) fn apply(&self, requests: PendingRequests) {
        if requests.cancel_requested {
            self.entry.stop(StopReason::Cancelled);
        }
        if requests.watched {
            self.entry.watched.cancel();
        }
    }

    pub(crate) fn stop_reason(&self) -> Option<StopReason> {
        self.entry.reason.get().copied()
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut entries = self.leases.lock();
        let id = self.entry.lease.execution_id;
        // The entry may be that of a newer lease by now.
        if entries.get(&id).is_some_and(|entry| entry.lease.token == self.entry.lease.token) {
            entries.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_lease_outlives_the_end_of_the_old_one() {
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
