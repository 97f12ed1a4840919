//! The leases this process holds, and the heartbeat that keeps them. A run whose lease was taken away, or that
//! somebody asked to cancel, is told to stop.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use store::{Lease, Store};
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
}

/// A lease that is kept alive until this is dropped.
pub struct Hold {
    leases: Arc<Leases>,
    held: Held,
}

impl Leases {
    pub fn hold(self: &Arc<Self>, lease: Lease) -> Hold {
        let held = Held { lease, stop: CancellationToken::new(), reason: Arc::default() };
        self.lock().insert(held.lease.execution_id, held.clone());
        Hold { leases: Arc::clone(self), held }
    }

    /// Tells one run to stop; nothing happens when it does not run here.
    pub fn stop(&self, id: Uuid, reason: StopReason) {
        if let Some(held) = self.lock().get(&id) {
            held.stop(reason);
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
            Err(error) => return tracing::warn!(%error, "the heartbeat of {} leases failed", leases.len()),
        };
        for id in beat.cancelled {
            self.stop(id, StopReason::Cancelled);
        }
        for lease in leases.iter().filter(|lease| !beat.held.contains(&lease.execution_id)) {
            // A run that was recorded while the heartbeat was under way is gone from the map by now.
            self.stop(lease.execution_id, StopReason::Fenced);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Uuid, Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Beats three times in the life of a lease, so that two may fail.
pub async fn heartbeat(leases: Arc<Leases>, store: Store, lease: Duration, closed: CancellationToken) {
    let lease_ms = i64::try_from(lease.as_millis()).unwrap_or(i64::MAX);
    while closed.run_until_cancelled(tokio::time::sleep(lease / 3)).await.is_some() {
        leases.beat(&store, lease_ms).await;
    }
}

impl Held {
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

    pub fn stop_reason(&self) -> Option<StopReason> {
        self.held.reason.get().copied()
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.leases.lock().remove(&self.held.lease.execution_id);
    }
}
