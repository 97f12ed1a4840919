//! Injected faults. Tests set them, and the API and the node check them before they act.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::node::image::ClusterImage;

/// The current faults; none by default.
#[derive(Debug, Clone, Default)]
pub(crate) struct FaultState {
    /// The node has no capacity for another pod.
    pub node_full: bool,
    /// Images that are missing in their registry.
    pub missing_images: BTreeSet<String>,
    /// Images to which tags were moved, the newest first.
    pub moved_tags: Vec<ClusterImage>,
    /// An image to which its tag is moved after the next pull of that tag.
    pub tag_move_after_pull: Option<ClusterImage>,
    /// All pulls: repository and digest.
    pub pulls: Vec<(String, String)>,
    /// The quota of the pods in a namespace.
    pub quota: Option<ResourceQuota>,
    /// The delay of every response.
    pub response_delay: Duration,
    /// The number of requests to reject with 429.
    pub throttled_requests: u32,
}

/// A `ResourceQuota`: its name, and limits such as `pods` or `limits.memory` in units.
#[derive(Debug, Clone, PartialEq)]
pub struct ResourceQuota {
    pub name: String,
    pub hard: BTreeMap<String, f64>,
}

pub(crate) struct Faults(Mutex<FaultState>, watch::Sender<()>);

impl Faults {
    pub(crate) fn new() -> Faults {
        Faults(Mutex::default(), watch::Sender::new(()))
    }

    pub(crate) fn now(&self) -> FaultState {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut FaultState) -> T) -> T {
        let changed = change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
        self.1.send_replace(());
        changed
    }

    /// Notifies about every change.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.1.subscribe()
    }
}
