//! One watch for all pods of a launcher, and whoever wants to know about one of them.
//!
//! It goes on when it is dropped, from where it was, or with a new list when that is too long ago;
//! an API server that is away is asked again every few seconds. Nobody may rely on it alone: who
//! waits for a pod also asks for it now and then.

use std::collections::{HashMap, HashSet};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::WatchStreamExt;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, Event};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::body::label_value;
use super::cluster::Cluster;
use super::standing::{Cause, End, Standing};
use crate::contained::OWNER_LABEL;
use crate::launcher::Owner;

/// Pauses between attempts while the API server is away.
const PAUSES: [Duration; 3] =
    [Duration::from_millis(500), Duration::from_secs(1), Duration::from_secs(3)];

/// How long a watch is asked for. A connection that died in silence is noticed a little later.
const WATCH_SECONDS: u32 = 60;

/// Hears of all pods of one owner until it is dropped.
pub struct Watch {
    ledger: Ledger,
    task: JoinHandle<()>,
}

/// What is known of the pods that somebody follows, by name.
#[derive(Clone, Default)]
struct Ledger(Arc<Mutex<HashMap<String, watch::Sender<Standing>>>>);

/// One pod that is followed. Dropping it forgets the pod.
pub struct Following {
    ledger: Ledger,
    name: String,
    standing: watch::Receiver<Standing>,
}

impl Watch {
    pub fn start(cluster: &Cluster, owner: &Owner) -> Watch {
        let ledger = Ledger::default();
        let mine = format!("{OWNER_LABEL}={}", label_value(&owner.0));
        let config = watcher::Config::default().labels(&mine).timeout(WATCH_SECONDS);
        let events = watcher::watcher(cluster.pods.clone(), config);
        let task = tokio::spawn({
            let ledger = ledger.clone();
            async move {
                let mut events = pin!(events.backoff(Patience(0)));
                let mut listed = HashSet::new();
                while let Some(event) = events.next().await {
                    match event {
                        Ok(event) => ledger.take(event, &mut listed),
                        Err(error) => tracing::debug!(%error, "the watch of pods was interrupted"),
                    }
                }
            }
        });
        Watch { ledger, task }
    }

    /// Follows a pod from before it is made.
    pub fn follow(&self, name: &str) -> Following {
        let (sender, standing) = watch::channel(Standing::Unseen);
        self.ledger.open().insert(name.to_owned(), sender);
        Following { ledger: self.ledger.clone(), name: name.to_owned(), standing }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Ledger {
    fn open(&self) -> MutexGuard<'_, HashMap<String, watch::Sender<Standing>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, event: Event<Pod>, listed: &mut HashSet<String>) {
        match event {
            Event::Init => listed.clear(),
            Event::InitApply(pod) => {
                listed.extend(pod.metadata.name.clone());
                self.note(&pod, Standing::of(&pod));
            }
            Event::InitDone => {
                // What was there and is not on a new list is gone, unless it was made while the
                // list was.
                for (_, standing) in self.open().iter().filter(|(name, _)| !listed.contains(*name))
                {
                    standing.send_if_modified(|standing| match standing {
                        Standing::Waiting(_) | Standing::Running(_) => {
                            *standing = Standing::Absent;
                            true
                        }
                        _ => false,
                    });
                }
                listed.clear();
            }
            Event::Apply(pod) => self.note(&pod, Standing::of(&pod)),
            Event::Delete(pod) => {
                let standing = match Standing::of(&pod) {
                    over @ Standing::Over(_) => over,
                    _ => Standing::Over(End { cause: Cause::Deleted, said: String::new() }),
                };
                self.note(&pod, standing);
            }
        }
    }

    fn note(&self, pod: &Pod, standing: Standing) {
        if let Some(name) = &pod.metadata.name
            && let Some(noted) = self.open().get(name)
        {
            noted.send_if_modified(|noted| renew(noted, standing));
        }
    }
}

/// An end is an end, of which a later look may know more but never less: one that was deleted has
/// still run out of memory.
fn renew(noted: &mut Standing, standing: Standing) -> bool {
    let keep = match (&*noted, &standing) {
        (Standing::Over(_), Standing::Over(later)) => {
            matches!(later.cause, Cause::Deleted | Cause::Exited)
        }
        (Standing::Over(_), _) => true,
        (noted, standing) => noted == standing,
    };
    if !keep {
        *noted = standing;
    }
    !keep
}

impl Following {
    pub fn standing(&mut self) -> Standing {
        self.standing.borrow_and_update().clone()
    }

    /// Waits until something is new.
    pub async fn changed(&mut self) {
        if self.standing.changed().await.is_err() {
            // Only this value itself takes the sender away.
            std::future::pending::<()>().await;
        }
    }

    /// What was seen of it by asking.
    pub fn saw(&self, pod: Option<&Pod>) {
        let standing = match pod {
            Some(pod) => Standing::of(pod),
            None => Standing::Over(End { cause: Cause::Deleted, said: String::new() }),
        };
        if let Some(noted) = self.ledger.open().get(&self.name) {
            noted.send_if_modified(|noted| renew(noted, standing));
        }
    }

    /// Another view of the same pod, which ends with this one.
    pub fn view(&self) -> watch::Receiver<Standing> {
        self.standing.clone()
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.ledger.open().remove(&self.name);
    }
}

struct Patience(usize);

impl Iterator for Patience {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let pause = PAUSES[self.0.min(PAUSES.len() - 1)];
        self.0 += 1;
        Some(pause)
    }
}

impl Backoff for Patience {
    fn reset(&mut self) {
        self.0 = 0;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, status: serde_json::Value) -> Pod {
        let pod =
            json!({ "metadata": { "name": name }, "spec": { "containers": [] }, "status": status });
        serde_json::from_value(pod).expect("a pod")
    }

    fn running(name: &str) -> Pod {
        let state = json!({ "running": {} });
        let skill = json!({ "name": "skill", "image": "", "imageID": "", "ready": true, "restartCount": 0, "state": state });
        pod(name, json!({ "phase": "Running", "containerStatuses": [skill] }))
    }

    fn follow(ledger: &Ledger, name: &str) -> Following {
        let (sender, standing) = watch::channel(Standing::Unseen);
        ledger.open().insert(name.to_owned(), sender);
        Following { ledger: ledger.clone(), name: name.to_owned(), standing }
    }

    #[test]
    fn a_list_after_a_cut_shows_what_is_gone() {
        let (ledger, mut listed) = (Ledger::default(), HashSet::new());
        let (mut stays, mut goes, mut coming) =
            (follow(&ledger, "a"), follow(&ledger, "b"), follow(&ledger, "c"));
        for name in ["a", "b"] {
            ledger.take(Event::Apply(running(name)), &mut listed);
        }
        ledger.take(Event::Init, &mut listed);
        ledger.take(Event::InitApply(running("a")), &mut listed);
        ledger.take(Event::InitDone, &mut listed);
        assert!(matches!(stays.standing(), Standing::Running(_)));
        assert_eq!(goes.standing(), Standing::Absent);
        // It was never seen, so its absence means nothing.
        assert_eq!(coming.standing(), Standing::Unseen);
        goes.saw(Some(&running("b")));
        assert!(matches!(goes.standing(), Standing::Running(_)));
        goes.saw(None);
        assert!(matches!(goes.standing(), Standing::Over(End { cause: Cause::Deleted, .. })));
        drop((stays, goes, coming));
        assert!(ledger.open().is_empty());
    }

    #[test]
    fn an_end_keeps_its_cause() {
        let (ledger, mut listed) = (Ledger::default(), HashSet::new());
        let mut followed = follow(&ledger, "a");
        let evicted =
            pod("a", json!({ "phase": "Failed", "reason": "Evicted", "message": "low on memory" }));
        ledger.take(Event::Apply(evicted), &mut listed);
        ledger.take(Event::Apply(running("a")), &mut listed);
        ledger.take(Event::Delete(running("a")), &mut listed);
        assert!(matches!(followed.standing(), Standing::Over(End { cause: Cause::Evicted, .. })));
        // Of others nothing is kept.
        ledger.take(Event::Apply(running("z")), &mut listed);
        assert_eq!(ledger.open().len(), 1);
    }
}
