//! The sessions of older clients: whose each is, how many there may be, and whether anybody wants
//! its runs.
//!
//! A slot is reserved before the SDK makes a session, so that any number of clients at once get no
//! more than there are.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::transport::streamable_http_server::session::SessionManager;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{McpCaller, SessionError};

/// What is known of a session beside what the SDK keeps. It is in use while anybody else holds it.
pub struct Session {
    owner: Owner,
    /// Grows with every use, so that the smallest is the session unused for longest.
    used: AtomicU64,
    /// Cancelled when nobody wants its runs any more.
    pub wanted: CancellationToken,
    /// How often its client came back.
    returns: watch::Sender<u64>,
}

impl Session {
    /// Its client asked to go on where its connection broke.
    pub fn came_back(&self) {
        self.returns.send_modify(|count| *count += 1);
    }

    /// Sees every return from now on, also those that happen before anybody waits for one.
    pub fn returns(&self) -> watch::Receiver<u64> {
        self.returns.subscribe()
    }
}

/// Whose a session is.
#[derive(Clone, PartialEq, Eq)]
struct Owner {
    tenant: String,
    identity: String,
}

impl Owner {
    fn of(caller: &McpCaller) -> Owner {
        Owner { tenant: caller.tenant.clone(), identity: caller.identity.clone() }
    }
}

/// How many sessions there may be.
#[derive(Clone, Copy)]
pub struct SessionLimits {
    pub total: usize,
    pub of_tenant: usize,
    /// Of one key or subject, so that it leaves slots to the others of its tenant.
    pub of_identity: usize,
}

pub struct Sessions {
    /// The SDK's own; what it has ended is forgotten here when room is needed.
    live: Arc<LocalSessionManager>,
    slots: Mutex<Slots>,
    uses: AtomicU64,
    limits: SessionLimits,
}

/// Every slot that is taken.
#[derive(Default)]
struct Slots {
    known: HashMap<String, Arc<Session>>,
    /// For sessions that are being made.
    reserved: HashMap<u64, Owner>,
    next: u64,
}

/// A slot for a session that is being made. Dropped without a session it is free again.
pub struct Reservation {
    sessions: Arc<Sessions>,
    number: u64,
    owner: Owner,
}

impl Reservation {
    /// Gives the slot to the session, from its first answer on.
    pub fn keep(self, id: &str) {
        let used = AtomicU64::new(self.sessions.next_use());
        let (wanted, returns) = (CancellationToken::new(), watch::Sender::new(0));
        let session = Session { owner: self.owner.clone(), used, wanted, returns };
        self.sessions.slots().known.insert(id.to_owned(), Arc::new(session));
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.sessions.slots().reserved.remove(&self.number);
    }
}

impl Sessions {
    pub fn new(live: Arc<LocalSessionManager>, limits: SessionLimits) -> Arc<Sessions> {
        Arc::new(Sessions { live, slots: Mutex::default(), uses: AtomicU64::new(0), limits })
    }

    /// The session, if it is this caller's.
    pub fn find(&self, id: &str, caller: &McpCaller) -> Option<Arc<Session>> {
        let session = self.slots().known.get(id).cloned()?;
        let own = session.owner == Owner::of(caller);
        session.used.store(self.next_use(), Ordering::Relaxed);
        own.then_some(session)
    }

    /// Takes a slot. Where there is none, the session that was unused for longest among those that
    /// may be ended for this caller makes room: clients that crashed leave theirs behind.
    pub async fn reserve(
        self: &Arc<Self>,
        caller: &McpCaller,
    ) -> Result<Reservation, SessionError> {
        self.forget_ended().await;
        let owner = Owner::of(caller);
        let (number, ended) = {
            let mut slots = self.slots();
            let ended = slots.make_room(&owner, self.limits)?;
            let number = slots.next;
            slots.next += 1;
            slots.reserved.insert(number, owner.clone());
            (number, ended)
        };
        // From here on the slot is given back, also when this caller does not wait for the end of
        // the other session.
        let reservation = Reservation { sessions: Arc::clone(self), number, owner };
        if let Some((id, session)) = ended {
            session.wanted.cancel();
            // One that ended by itself meanwhile has made room too.
            let _ = self.live.close_session(&id.into()).await;
        }
        Ok(reservation)
    }

    pub async fn live(&self) -> usize {
        self.live.sessions.read().await.len()
    }

    async fn forget_ended(&self) {
        let live = self.live.sessions.read().await;
        self.slots().known.retain(|id, session| {
            let lives = live.contains_key(id.as_str());
            if !lives {
                session.wanted.cancel();
            }
            lives
        });
    }

    fn next_use(&self) -> u64 {
        self.uses.fetch_add(1, Ordering::Relaxed)
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slots {
    /// Removes a session where a limit is reached. The narrowest limit decides whose it is: the
    /// key's own, then its tenant's, then that of the tenant which has the most.
    fn make_room(
        &mut self,
        owner: &Owner,
        limits: SessionLimits,
    ) -> Result<Option<(String, Arc<Session>)>, SessionError> {
        let own = |other: &Owner| other == owner;
        let of_tenant = |other: &Owner| other.tenant == owner.tenant;
        let id = if self.count(own) >= limits.of_identity {
            self.unused(own)
        } else if self.count(of_tenant) >= limits.of_tenant {
            self.unused(of_tenant)
        } else if self.count(|_| true) >= limits.total {
            self.unused_of_largest(&owner.tenant)
        } else {
            return Ok(None);
        };
        let removed = id.and_then(|id| self.known.remove_entry(&id));
        removed.map(Some).ok_or(SessionError::TooManySessions)
    }

    fn owners(&self) -> impl Iterator<Item = &Owner> {
        self.known.values().map(|session| &session.owner).chain(self.reserved.values())
    }

    fn count(&self, counted: impl Fn(&Owner) -> bool) -> usize {
        self.owners().filter(|owner| counted(owner)).count()
    }

    /// A session of the tenant with the most, and never of a smaller one; of tenants that have
    /// equally many, the caller's own before others, then the session that was unused for longest.
    fn unused_of_largest(&self, own: &str) -> Option<String> {
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for owner in self.owners() {
            *counts.entry(owner.tenant.as_str()).or_default() += 1;
        }
        let most = counts.values().max()?;
        let of_largest = self
            .idle()
            .filter(|(_, session)| counts.get(session.owner.tenant.as_str()) == Some(most));
        let first = |(_, session): &(&String, &Arc<Session>)| {
            (session.owner.tenant != own, session.used.load(Ordering::Relaxed))
        };
        of_largest.min_by_key(first).map(|(id, _)| id.clone())
    }

    fn unused(&self, eligible: impl Fn(&Owner) -> bool) -> Option<String> {
        let unused = self.idle().filter(|(_, session)| eligible(&session.owner));
        unused
            .min_by_key(|(_, session)| session.used.load(Ordering::Relaxed))
            .map(|(id, _)| id.clone())
    }

    /// Sessions that no request is using.
    fn idle(&self) -> impl Iterator<Item = (&String, &Arc<Session>)> {
        self.known.iter().filter(|(_, session)| Arc::strong_count(session) == 1)
    }
}
