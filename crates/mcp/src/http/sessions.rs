//! The sessions of older clients: whose each is, how many there may be, and whether anybody wants its runs.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::transport::streamable_http_server::session::SessionManager;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{Caller, Refused};

/// What is known of a session beside what the SDK keeps. It is in use while anybody else holds it.
pub struct Session {
    tenant: String,
    identity: String,
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

pub struct Sessions {
    /// The SDK's own; what it has ended is forgotten here when room is needed.
    live: Arc<LocalSessionManager>,
    known: Mutex<HashMap<String, Arc<Session>>>,
    uses: AtomicU64,
    most: usize,
    most_of_tenant: usize,
}

impl Sessions {
    pub fn new(live: Arc<LocalSessionManager>, most: usize, most_of_tenant: usize) -> Sessions {
        Sessions { live, known: Mutex::default(), uses: AtomicU64::new(0), most, most_of_tenant }
    }

    /// The session, if it is this caller's.
    pub fn find(&self, id: &str, caller: &Caller) -> Option<Arc<Session>> {
        let session = self.known().get(id).cloned()?;
        let own = session.tenant == caller.tenant && session.identity == caller.identity;
        session.used.store(self.next_use(), Ordering::Relaxed);
        own.then_some(session)
    }

    /// Remembers whose a session is, from its first answer on.
    pub fn keep(&self, id: &str, caller: Caller) {
        let Caller { tenant, identity, .. } = caller;
        let used = AtomicU64::new(self.next_use());
        let (wanted, returns) = (CancellationToken::new(), watch::Sender::new(0));
        let session = Session { tenant, identity, used, wanted, returns };
        self.known().entry(id.to_owned()).or_insert_with(|| Arc::new(session));
    }

    /// Where there are as many as there may be, ends the one of this tenant that was unused for longest: clients that
    /// crashed leave theirs behind.
    pub async fn make_room(&self, tenant: &str) -> Result<(), Refused> {
        self.forget_ended().await;
        let Some(id) = self.superfluous(tenant)? else { return Ok(()) };
        if let Some(session) = self.known().remove(&id) {
            session.wanted.cancel();
        }
        // One that ended by itself meanwhile has made room too.
        let _ = self.live.close_session(&id.into()).await;
        Ok(())
    }

    fn superfluous(&self, tenant: &str) -> Result<Option<String>, Refused> {
        let known = self.known();
        let own = || known.iter().filter(|(_, session)| session.tenant == tenant);
        if known.len() < self.most && own().count() < self.most_of_tenant {
            return Ok(None);
        }
        let unused = own().filter(|(_, session)| Arc::strong_count(session) == 1);
        let oldest = unused.min_by_key(|(_, session)| session.used.load(Ordering::Relaxed));
        oldest.map(|(id, _)| Some(id.clone())).ok_or(Refused::TooManySessions)
    }

    async fn forget_ended(&self) {
        let live = self.live.sessions.read().await;
        self.known().retain(|id, session| {
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

    fn known(&self) -> MutexGuard<'_, HashMap<String, Arc<Session>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
