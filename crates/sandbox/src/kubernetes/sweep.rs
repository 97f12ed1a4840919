//! Which pods nobody will ever remove.
//!
//! Several workers use one namespace, and none knows which of the others live. So a pod of another
//! owner goes when its lease is over, or when it has ended, or never started, and its owner has not
//! removed it. A worker that dies takes its pods with it: they end when their standard input does.
//! Of its own pods a worker knows which ones it still holds; one that it could not remove while the
//! API server was away is like one of another owner.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use k8s_openapi::api::core::v1::Pod;

use super::standing::{Cause, End, Standing};
use crate::contained::{LEASE_LABEL, OWNER_LABEL};

/// How long an owner has to remove what has ended: it looks at how it ended first.
const GRACE: Duration = Duration::from_secs(12);

/// The names of the pods that somebody here makes, uses or removes.
#[derive(Clone, Default)]
pub struct Held(Arc<Mutex<HashSet<String>>>);

/// One of them. Dropping it leaves the pod to the sweep.
pub struct Holding {
    held: Held,
    name: String,
}

impl Held {
    /// Holds a pod from before it is made.
    pub fn hold(&self, name: &str) -> Holding {
        self.open().insert(name.to_owned());
        Holding { held: self.clone(), name: name.to_owned() }
    }

    fn open(&self) -> MutexGuard<'_, HashSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        self.held.open().remove(&self.name);
    }
}

/// When each pod that nobody here holds and that does not run was first seen so, by our own clock.
#[derive(Default)]
pub struct Seen(HashMap<String, Instant>);

impl Seen {
    /// The names of what is to be removed now. `starting` is how long a pod may take until it runs.
    pub fn abandoned(
        &mut self,
        all: &[Pod],
        held: &Held,
        starting: Duration,
        now: Instant,
    ) -> Vec<String> {
        let mut still = HashMap::new();
        let mut abandoned = Vec::new();
        for pod in all.iter().filter(|pod| label(pod, OWNER_LABEL).is_some()) {
            let Some(name) = pod.metadata.name.clone().filter(|name| !held.open().contains(name))
            else {
                continue;
            };
            let patience = match Standing::of(pod) {
                // Somebody removes it already, and only its node can say that it is gone.
                Standing::Over(End { cause: Cause::Deleted, .. }) => None,
                Standing::Over(_) => Some(GRACE),
                Standing::Waiting(_) => Some(starting),
                _ => None,
            };
            let since = self.0.get(&name).copied().unwrap_or(now);
            if lease_is_over(pod) || patience.is_some_and(|patience| now - since >= patience) {
                abandoned.push(name);
            } else if patience.is_some() {
                still.insert(name, since);
            }
        }
        self.0 = still;
        abandoned
    }
}

fn label<'a>(pod: &'a Pod, name: &str) -> Option<&'a String> {
    pod.metadata.labels.as_ref()?.get(name)
}

/// A lease that cannot be read is none.
fn lease_is_over(pod: &Pod) -> bool {
    let now = seconds_since_1970();
    label(pod, LEASE_LABEL)
        .and_then(|until| until.parse::<u64>().ok())
        .is_none_or(|until| until < now)
}

pub fn seconds_since_1970() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
    fn what_others_left_goes_and_what_lives_stays() {
        const STARTING: Duration = Duration::from_secs(200);
        let (held, start) = (Held::default(), Instant::now());
        let _mine = held.hold("mine");
        let later = seconds_since_1970() + 1000;
        let all = [
            pod("mine", "me", 1, "Failed"),
            pod("running", "other", later, "Running"),
            pod("ended", "other", later, "Failed"),
            pod("starting", "other", later, "Pending"),
            pod("overdue", "other", 1, "Running"),
        ];
        let mut seen = Seen::default();
        let mut abandoned =
            |all: &[Pod], after: Duration| seen.abandoned(all, &held, STARTING, start + after);
        assert_eq!(abandoned(&all, Duration::ZERO), ["overdue"]);
        assert_eq!(abandoned(&all[..4], GRACE / 2), Vec::<String>::new());
        assert_eq!(abandoned(&all[..4], GRACE), ["ended"]);
        assert_eq!(abandoned(&all[..4], STARTING), ["starting"]);
        // One that is gone is forgotten, and one that comes anew has its whole time.
        assert_eq!(abandoned(&[], STARTING), Vec::<String>::new());
        assert_eq!(abandoned(&all[2..3], STARTING * 2), Vec::<String>::new());
    }

    #[test]
    fn a_pod_of_ones_own_goes_when_nobody_holds_it_any_more() {
        let (held, start) = (Held::default(), Instant::now());
        let all = [pod("mine", "me", seconds_since_1970() + 1000, "Failed")];
        let mut seen = Seen::default();
        let mut abandoned = |after: Duration| seen.abandoned(&all, &held, GRACE, start + after);
        let holding = held.hold("mine");
        assert_eq!(abandoned(Duration::ZERO), Vec::<String>::new());
        assert_eq!(abandoned(GRACE), Vec::<String>::new());
        drop(holding);
        // From now on it has the time that any other has.
        assert_eq!(abandoned(GRACE), Vec::<String>::new());
        assert_eq!(abandoned(GRACE * 2), ["mine"]);
    }
}
