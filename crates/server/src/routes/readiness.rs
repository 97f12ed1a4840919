//! The state of the server's parts, remembered for a moment. `/ready` needs no key, so however
//! often it is asked, the database, the blobs and the sandbox are asked once at a time and not more
//! often than that moment.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use runner::Readiness;
use tokio::sync::Mutex;

use crate::app::SharedApp;

type Known = Option<(Instant, Arc<Readiness>)>;

pub(crate) struct ReadyCache {
    age: Duration,
    known: Arc<Mutex<Known>>,
}

impl ReadyCache {
    pub(crate) fn new(age: Duration) -> ReadyCache {
        ReadyCache { age, known: Arc::default() }
    }

    /// What was found within the last moment, or is found now.
    pub(crate) async fn get(&self, app: &SharedApp) -> Option<Arc<Readiness>> {
        let mut known = Arc::clone(&self.known).lock_owned().await;
        if let Some((at, readiness)) = &*known
            && at.elapsed() < self.age
        {
            return Some(Arc::clone(readiness));
        }
        app.metrics.ready_checks.fetch_add(1, Ordering::Relaxed);
        let app = Arc::clone(app);
        // In a task of its own: a client that hangs up must not make the next one start again.
        let check = tokio::spawn(async move {
            let readiness = Arc::new(app.runner.ready().await);
            *known = Some((Instant::now(), Arc::clone(&readiness)));
            readiness
        });
        check.await.ok()
    }
}
