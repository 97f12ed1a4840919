//! One watch for all pods of a launcher, and subscriptions to single pods.
//!
//! After an interruption the watch resumes at its last resource version, or with a new list when
//! that version is too old. While the API server is away it retries every few seconds. A watch can
//! be silent for long without being broken, so every waiter also polls its pod.

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
use super::client::ClusterClient;
use super::pod_state::{EndCause, PodState};
use crate::container_backend::OWNER_LABEL;
use crate::launcher::Owner;

/// Delays between attempts while the API server is away.
const RETRY_DELAYS: [Duration; 3] =
    [Duration::from_millis(500), Duration::from_secs(1), Duration::from_secs(3)];

/// The requested duration of a watch. A connection that broke silently is detected soon after it.
const WATCH_SECONDS: u32 = 60;

/// Receives the events of all pods of one owner until it is dropped.
pub(super) struct PodWatch {
    tracked: TrackedPods,
    task: JoinHandle<()>,
}

/// The states of the subscribed pods, by name.
#[derive(Clone, Default)]
struct TrackedPods(Arc<Mutex<HashMap<String, watch::Sender<PodState>>>>);

/// A subscription to one pod. Dropping it ends the tracking of the pod.
pub(super) struct PodSubscription {
    tracked: TrackedPods,
    name: String,
    state: watch::Receiver<PodState>,
}

impl PodWatch {
    pub(super) fn start(client: &ClusterClient, owner: &Owner) -> PodWatch {
        let tracked = TrackedPods::default();
        let owned = format!("{OWNER_LABEL}={}", label_value(&owner.0));
        let config = watcher::Config::default().labels(&owned).timeout(WATCH_SECONDS);
        let events = watcher::watcher(client.pods.clone(), config);
        let task = tokio::spawn({
            let tracked = tracked.clone();
            async move {
                let mut events = pin!(events.backoff(WatchBackoff(0)));
                let mut listed = HashSet::new();
                while let Some(event) = events.next().await {
                    match event {
                        Ok(event) => tracked.handle_event(event, &mut listed),
                        Err(error) => tracing::debug!(%error, "the watch of pods was interrupted"),
                    }
                }
            }
        });
        PodWatch { tracked, task }
    }

    /// Subscribes to a pod. Called before the pod is created, so that no event is missed.
    pub(super) fn subscribe(&self, name: &str) -> PodSubscription {
        self.tracked.subscribe(name)
    }
}

impl Drop for PodWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl TrackedPods {
    fn subscribe(&self, name: &str) -> PodSubscription {
        let (sender, state) = watch::channel(PodState::Unknown);
        self.lock().insert(name.to_owned(), sender);
        PodSubscription { tracked: self.clone(), name: name.to_owned(), state }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, watch::Sender<PodState>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Handles one event. `listed` collects the names of a list that is being received.
    fn handle_event(&self, event: Event<Pod>, listed: &mut HashSet<String>) {
        match event {
            Event::Init => listed.clear(),
            Event::InitApply(pod) => {
                listed.extend(pod.metadata.name.clone());
                self.update(&pod, PodState::from_pod(&pod));
            }
            Event::InitDone => {
                self.mark_missing(listed);
                listed.clear();
            }
            Event::Apply(pod) => self.update(&pod, PodState::from_pod(&pod)),
            Event::Delete(pod) => {
                // The last state before the deletion may have a more specific cause.
                let state = match PodState::from_pod(&pod) {
                    ended @ PodState::Ended(_) => ended,
                    PodState::Unknown
                    | PodState::Pending(_)
                    | PodState::Running(_)
                    | PodState::Missing => PodState::deleted(),
                };
                self.update(&pod, state);
            }
        }
    }

    /// Marks the pods that were seen before and are not in a new list. A pod that was never seen
    /// may have been created after the list was made, so its absence proves nothing.
    fn mark_missing(&self, listed: &HashSet<String>) {
        for (_, state) in self.lock().iter().filter(|(name, _)| !listed.contains(*name)) {
            state.send_if_modified(|state| match state {
                PodState::Pending(_) | PodState::Running(_) => {
                    *state = PodState::Missing;
                    true
                }
                PodState::Unknown | PodState::Ended(_) | PodState::Missing => false,
            });
        }
    }

    fn update(&self, pod: &Pod, state: PodState) {
        if let Some(name) = &pod.metadata.name {
            self.update_by_name(name, state);
        }
    }

    fn update_by_name(&self, name: &str, state: PodState) {
        if let Some(current) = self.lock().get(name) {
            current.send_if_modified(|current| replace_state(current, state));
        }
    }
}

/// Replaces a state by a newer one; false when it stays. An end is final, and only a more specific
/// cause replaces it: a pod that ran out of memory is deleted afterwards, which must not hide the
/// first cause.
fn replace_state(current: &mut PodState, new: PodState) -> bool {
    let keep = match (&*current, &new) {
        (PodState::Ended(_), PodState::Ended(later)) => {
            matches!(later.cause, EndCause::Deleted | EndCause::Exited)
        }
        (PodState::Ended(_), _) => true,
        (current, new) => current == new,
    };
    if !keep {
        *current = new;
    }
    !keep
}

impl PodSubscription {
    pub(super) fn state(&mut self) -> PodState {
        self.state.borrow_and_update().clone()
    }

    /// Waits for a new state.
    pub(super) async fn changed(&mut self) {
        if self.state.changed().await.is_err() {
            // Only dropping this subscription removes the sender, so this cannot end.
            std::future::pending::<()>().await;
        }
    }

    /// Updates the state from the response to a request by name; `None` if there is no such pod.
    pub(super) fn update(&self, pod: Option<&Pod>) {
        let state = pod.map_or_else(PodState::deleted, PodState::from_pod);
        self.tracked.update_by_name(&self.name, state);
    }

    /// Another receiver of the same pod's state. It ends with this subscription.
    pub(super) fn receiver(&self) -> watch::Receiver<PodState> {
        self.state.clone()
    }
}

impl Drop for PodSubscription {
    fn drop(&mut self) {
        self.tracked.lock().remove(&self.name);
    }
}

struct WatchBackoff(usize);

impl Iterator for WatchBackoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let delay = RETRY_DELAYS[self.0.min(RETRY_DELAYS.len() - 1)];
        self.0 += 1;
        Some(delay)
    }
}

impl Backoff for WatchBackoff {
    fn reset(&mut self) {
        self.0 = 0;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kubernetes::pod_state::PodEnd;

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

    #[test]
    fn a_new_list_marks_absent_pods_as_missing() {
        let (tracked, mut listed) = (TrackedPods::default(), HashSet::new());
        let (mut present, mut absent, mut new) =
            (tracked.subscribe("a"), tracked.subscribe("b"), tracked.subscribe("c"));
        for name in ["a", "b"] {
            tracked.handle_event(Event::Apply(running(name)), &mut listed);
        }
        tracked.handle_event(Event::Init, &mut listed);
        tracked.handle_event(Event::InitApply(running("a")), &mut listed);
        tracked.handle_event(Event::InitDone, &mut listed);
        assert!(matches!(present.state(), PodState::Running(_)));
        assert_eq!(absent.state(), PodState::Missing);
        // It was never seen, so its absence proves nothing.
        assert_eq!(new.state(), PodState::Unknown);
        absent.update(Some(&running("b")));
        assert!(matches!(absent.state(), PodState::Running(_)));
        absent.update(None);
        assert_eq!(absent.state(), PodState::deleted());
        drop((present, absent, new));
        assert!(tracked.lock().is_empty());
    }

    #[test]
    fn an_end_keeps_its_cause() {
        let (tracked, mut listed) = (TrackedPods::default(), HashSet::new());
        let mut subscription = tracked.subscribe("a");
        let evicted =
            pod("a", json!({ "phase": "Failed", "reason": "Evicted", "message": "low on memory" }));
        tracked.handle_event(Event::Apply(evicted), &mut listed);
        tracked.handle_event(Event::Apply(running("a")), &mut listed);
        tracked.handle_event(Event::Delete(running("a")), &mut listed);
        let evicted = |end: &PodEnd| end.cause == EndCause::Evicted;
        assert!(matches!(subscription.state(), PodState::Ended(end) if evicted(&end)));
        // Pods without a subscription are not tracked.
        tracked.handle_event(Event::Apply(running("z")), &mut listed);
        assert_eq!(tracked.lock().len(), 1);
    }
}
