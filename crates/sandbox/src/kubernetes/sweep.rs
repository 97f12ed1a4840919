//! Finds orphaned pods.
//!
//! Several workers use one namespace, and none knows which of the others are alive. So a pod of
//! another owner is an orphan when its lease has expired, or when it has ended, or never started,
//! and its owner has not removed it within a grace period. When a worker dies its pods end, because
//! their standard input ends. A worker knows which of its own pods are active; one that it could
//! not remove while the API server was away is treated like a pod of another owner.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;

use super::pod_state::{EndCause, PodEnd, PodState};
use crate::container_backend::{LEASE_LABEL, OWNER_LABEL, is_lease_expired};

/// How long an owner has to remove an ended pod. It first requests how the pod ended.
const ENDED_GRACE_PERIOD: Duration = Duration::from_secs(12);

/// The names of the pods that this process is creating, using or removing.
#[derive(Clone, Default)]
pub(super) struct ActivePods(Arc<Mutex<HashSet<String>>>);

/// One active pod. Dropping it leaves the pod to the sweep.
pub(super) struct ActivePodGuard {
    active: ActivePods,
    name: String,
}

impl ActivePods {
    /// Registers a pod. Called before the pod is created, so that no sweep can see it unregistered.
    pub(super) fn register(&self, name: &str) -> ActivePodGuard {
        self.lock().insert(name.to_owned());
        ActivePodGuard { active: self.clone(), name: name.to_owned() }
    }

    fn contains(&self, name: &str) -> bool {
        self.lock().contains(name)
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ActivePodGuard {
    fn drop(&mut self) {
        self.active.lock().remove(&self.name);
    }
}

/// When each inactive pod that does not run was first seen so. It uses our own clock, because the
/// clocks of other machines may differ.
#[derive(Default)]
pub(super) struct PodOrphanTracker(HashMap<String, Instant>);

impl PodOrphanTracker {
    /// The names of the pods to remove now. `start_timeout` is how long a pod may take to run.
    pub(super) fn find_orphans(
        &mut self,
        all: &[Pod],
        active: &ActivePods,
        start_timeout: Duration,
        now: Instant,
    ) -> Vec<String> {
        let mut still_idle = HashMap::new();
        let mut orphans = Vec::new();
        for pod in all.iter().filter(|pod| label(pod, OWNER_LABEL).is_some()) {
            let Some(name) = pod.metadata.name.clone().filter(|name| !active.contains(name)) else {
                continue;
            };
            let grace_period = grace_period(pod, start_timeout);
            let idle_since = self.0.get(&name).copied().unwrap_or(now);
            if is_lease_expired(label(pod, LEASE_LABEL))
                || grace_period.is_some_and(|grace_period| now - idle_since >= grace_period)
            {
                orphans.push(name);
            } else if grace_period.is_some() {
                still_idle.insert(name, idle_since);
            }
        }
        // Pods that were removed, or that run now, are forgotten.
        self.0 = still_idle;
        orphans
    }
}

/// How long a pod in this state is left to its owner; `None` for no limit but its lease.
fn grace_period(pod: &Pod, start_timeout: Duration) -> Option<Duration> {
    match PodState::from_pod(pod) {
        // It is being deleted already, and only its node can confirm that it has stopped.
        PodState::Ended(PodEnd { cause: EndCause::Deleted, .. }) => None,
        PodState::Ended(_) => Some(ENDED_GRACE_PERIOD),
        PodState::Pending(_) => Some(start_timeout),
        PodState::Unknown | PodState::Running(_) | PodState::Missing => None,
    }
}

fn label<'a>(pod: &'a Pod, name: &str) -> Option<&'a String> {
    pod.metadata.labels.as_ref()?.get(name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::container_backend::unix_time_seconds;

    fn pod(name: &str, owner: &str, lease: u64, phase: &str) -> Pod {
        let state = if phase == "Running" { json!({ "running": {} }) } else { json!({}) };
        let skill = json!({ "name": "skill", "image": "", "imageID": "", "ready": true, "restartCount": 0, "state": state });
        let pod = json!({
            "metadata": { "name": name, "labels": { OWNER_LABEL: owner, LEASE_LABEL: lease.to_string() } },
            "spec": { "containers": [] },
            "status": { "phase": phase, "containerStatuses": [skill] },
        });
        serde_json::from_value(pod).expect("a pod")
    }

    #[test]
    fn orphans_of_others_are_removed_and_running_pods_stay() {
        const START_TIMEOUT: Duration = Duration::from_secs(200);
        let (active, start) = (ActivePods::default(), Instant::now());
        let _mine = active.register("mine");
        let later = unix_time_seconds() + 1000;
        let all = [
            pod("mine", "me", 1, "Failed"),
            pod("running", "other", later, "Running"),
            pod("ended", "other", later, "Failed"),
            pod("starting", "other", later, "Pending"),
            pod("overdue", "other", 1, "Running"),
        ];
        let mut tracker = PodOrphanTracker::default();
        let mut orphans = |all: &[Pod], after: Duration| {
            tracker.find_orphans(all, &active, START_TIMEOUT, start + after)
        };
        assert_eq!(orphans(&all, Duration::ZERO), ["overdue"]);
        assert_eq!(orphans(&all[..4], ENDED_GRACE_PERIOD / 2), Vec::<String>::new());
        assert_eq!(orphans(&all[..4], ENDED_GRACE_PERIOD), ["ended"]);
        assert_eq!(orphans(&all[..4], START_TIMEOUT), ["starting"]);
        // A removed pod is forgotten, and a new one of its name has the whole grace period.
        assert_eq!(orphans(&[], START_TIMEOUT), Vec::<String>::new());
        assert_eq!(orphans(&all[2..3], START_TIMEOUT * 2), Vec::<String>::new());
    }

    #[test]
    fn an_own_pod_is_an_orphan_when_it_is_no_longer_active() {
        let (active, start) = (ActivePods::default(), Instant::now());
        let all = [pod("mine", "me", unix_time_seconds() + 1000, "Failed")];
        let mut tracker = PodOrphanTracker::default();
        let mut orphans = |after: Duration| {
            tracker.find_orphans(&all, &active, ENDED_GRACE_PERIOD, start + after)
        };
        let guard = active.register("mine");
        assert_eq!(orphans(Duration::ZERO), Vec::<String>::new());
        assert_eq!(orphans(ENDED_GRACE_PERIOD), Vec::<String>::new());
        drop(guard);
        // From now on it has the same grace period as any other.
        assert_eq!(orphans(ENDED_GRACE_PERIOD), Vec::<String>::new());
        assert_eq!(orphans(ENDED_GRACE_PERIOD * 2), ["mine"]);
    }
}
