//! The sessions of clients with an older protocol version: who owns each, how many there may be,
//! and which one is evicted for a new one.
//!
//! A slot is reserved before the SDK creates a session, so that any number of concurrent clients
//! stays within the limits.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::transport::streamable_http_server::session::SessionManager;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{McpCaller, SessionError};

/// What is known of a session besides what the SDK keeps. A session is in use while anything but
/// the table of slots holds it.
pub(super) struct McpSession {
    owner: SessionOwner,
    /// Grows with every use: the session with the smallest value is the least recently used.
    last_use: AtomicU64,
    /// Cancelled when the session ends, which cancels its runs.
    pub ended: CancellationToken,
    /// Counts the reconnects of the client.
    reconnects: watch::Sender<u64>,
}

impl McpSession {
    /// Records that the client resumes a response whose connection broke.
    pub(super) fn record_reconnect(&self) {
        self.reconnects.send_modify(|count| *count += 1);
    }

    /// Receives every reconnect from now on, also those before the receiver is first awaited.
    pub(super) fn subscribe_to_reconnects(&self) -> watch::Receiver<u64> {
        self.reconnects.subscribe()
    }
}

/// The key or subject that a session belongs to.
#[derive(Clone, PartialEq, Eq)]
struct SessionOwner {
    tenant: String,
    identity: String,
}

impl From<&McpCaller> for SessionOwner {
    fn from(caller: &McpCaller) -> SessionOwner {
        SessionOwner { tenant: caller.tenant.clone(), identity: caller.identity.clone() }
    }
}

/// How many sessions there may be.
#[derive(Clone, Copy)]
pub struct SessionLimits {
    pub total: usize,
    pub per_tenant: usize,
    /// Per key or subject, so that one leaves slots to the others of its tenant.
    pub per_identity: usize,
}

pub(super) struct SessionTable {
    /// The SDK's own table. A session that has ended there is removed here before the next one is
    /// created.
    live: Arc<LocalSessionManager>,
    slots: Mutex<SessionSlots>,
    uses: AtomicU64,
    limits: SessionLimits,
}

/// Every slot that is taken.
#[derive(Default)]
struct SessionSlots {
    sessions: HashMap<String, Arc<McpSession>>,
    /// Slots of sessions that are being created.
    reserved: HashMap<u64, SessionOwner>,
    next_reservation: u64,
}

/// The slot of a session that is being created. Dropping it without a session frees the slot.
pub(super) struct SessionReservation {
    sessions: Arc<SessionTable>,
    number: u64,
    owner: SessionOwner,
}

impl SessionReservation {
    /// Turns the reservation into the session `id`, which the SDK has created.
    pub(super) fn commit(self, id: &str) {
        let session = McpSession {
            owner: self.owner.clone(),
            last_use: AtomicU64::new(self.sessions.next_use()),
            ended: CancellationToken::new(),
            reconnects: watch::Sender::new(0),
        };
        // The reservation is dropped after the insert: for a moment the session counts twice, and
        // never not at all.
        self.sessions.slots().sessions.insert(id.to_owned(), Arc::new(session));
    }
}

impl Drop for SessionReservation {
    fn drop(&mut self) {
        self.sessions.slots().reserved.remove(&self.number);
    }
}

impl SessionTable {
    pub(super) fn new(live: Arc<LocalSessionManager>, limits: SessionLimits) -> Arc<SessionTable> {
        Arc::new(SessionTable { live, slots: Mutex::default(), uses: AtomicU64::new(0), limits })
    }

    /// The session, if the caller owns it.
    pub(super) fn find(&self, id: &str, caller: &McpCaller) -> Option<Arc<McpSession>> {
        let session = self.slots().sessions.get(id).cloned()?;
        session.last_use.store(self.next_use(), Ordering::Relaxed);
        (session.owner == SessionOwner::from(caller)).then_some(session)
    }

    /// Reserves a slot. At a limit, the least recently used idle session that this caller may evict
    /// is ended: crashed clients leave theirs behind.
    pub(super) async fn reserve(
        self: &Arc<Self>,
        caller: &McpCaller,
    ) -> Result<SessionReservation, SessionError> {
        self.remove_ended().await;
        let owner = SessionOwner::from(caller);
        let (number, evicted) = {
            let mut slots = self.slots();
            let evicted = slots.evict_at_limit(&owner, self.limits)?;
            let number = slots.next_reservation;
            slots.next_reservation += 1;
            slots.reserved.insert(number, owner.clone());
            (number, evicted)
        };
        // Made before the next await: when the client disconnects there, this future is dropped,
        // and the reservation has to free its slot.
        let reservation = SessionReservation { sessions: Arc::clone(self), number, owner };
        if let Some((id, session)) = evicted {
            session.ended.cancel();
            // An error means that the session has ended by itself meanwhile.
            let _ = self.live.close_session(&id.into()).await;
        }
        Ok(reservation)
    }

    pub(super) async fn count_live(&self) -> usize {
        self.live.sessions.read().await.len()
    }

    /// Removes the sessions that the SDK has ended, for example after their idle timeout.
    async fn remove_ended(&self) {
        let live = self.live.sessions.read().await;
        self.slots().sessions.retain(|id, session| {
            let is_live = live.contains_key(id.as_str());
            if !is_live {
                session.ended.cancel();
            }
            is_live
        });
    }

    fn next_use(&self) -> u64 {
        self.uses.fetch_add(1, Ordering::Relaxed)
    }

    fn slots(&self) -> MutexGuard<'_, SessionSlots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SessionSlots {
    /// Removes a session when a limit is reached. The narrowest limit decides whose: the identity's
    /// own, then its tenant's, then that of the tenant with the most sessions.
    fn evict_at_limit(
        &mut self,
        owner: &SessionOwner,
        limits: SessionLimits,
    ) -> Result<Option<(String, Arc<McpSession>)>, SessionError> {
        let same_identity = |other: &SessionOwner| other == owner;
        let same_tenant = |other: &SessionOwner| other.tenant == owner.tenant;
        let id = if self.count(same_identity) >= limits.per_identity {
            self.least_recently_used(same_identity)
        } else if self.count(same_tenant) >= limits.per_tenant {
            self.least_recently_used(same_tenant)
        } else if self.count(|_| true) >= limits.total {
            self.least_recently_used_of_largest_tenant(&owner.tenant)
        } else {
            return Ok(None);
        };
        let evicted = id.and_then(|id| self.sessions.remove_entry(&id));
        evicted.map(Some).ok_or(SessionError::TooManySessions)
    }

    fn owners(&self) -> impl Iterator<Item = &SessionOwner> {
        self.sessions.values().map(|session| &session.owner).chain(self.reserved.values())
    }

    fn count(&self, counted: impl Fn(&SessionOwner) -> bool) -> usize {
        self.owners().filter(|owner| counted(owner)).count()
    }

    /// An idle session of the tenant with the most sessions, and never of a smaller one: a tenant
    /// cannot push out others by opening sessions. Among equally large tenants the caller's own
    /// comes first.
    fn least_recently_used_of_largest_tenant(&self, own_tenant: &str) -> Option<String> {
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for owner in self.owners() {
            *counts.entry(owner.tenant.as_str()).or_default() += 1;
        }
        let largest = counts.values().max()?;
        let of_largest = self
            .idle()
            .filter(|(_, session)| counts.get(session.owner.tenant.as_str()) == Some(largest));
        let eviction_order = |(_, session): &(&String, &Arc<McpSession>)| {
            (session.owner.tenant != own_tenant, session.last_use.load(Ordering::Relaxed))
        };
        of_largest.min_by_key(eviction_order).map(|(id, _)| id.clone())
    }

    fn least_recently_used(&self, eligible: impl Fn(&SessionOwner) -> bool) -> Option<String> {
        let candidates = self.idle().filter(|(_, session)| eligible(&session.owner));
        candidates
            .min_by_key(|(_, session)| session.last_use.load(Ordering::Relaxed))
            .map(|(id, _)| id.clone())
    }

    /// Sessions that no request uses: only this table holds them.
    fn idle(&self) -> impl Iterator<Item = (&String, &Arc<McpSession>)> {
        self.sessions.iter().filter(|(_, session)| Arc::strong_count(session) == 1)
    }
}
