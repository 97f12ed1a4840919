//! What is wrong with the cluster at the moment. A test says so, and everything here looks before
//! it acts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::node::image::ClusterImage;

/// All of it. Nothing is wrong in the beginning.
#[derive(Debug, Clone, Default)]
pub struct FaultState {
    /// No node has room for another pod.
    pub node_full: bool,
    /// Images that no registry has.
    pub missing_images: BTreeSet<String>,
    /// Images that were pushed under the names of others later; the newest comes first.
    pub moved_tags: Vec<ClusterImage>,
    /// An image that takes the name of another one as soon as a node has pulled that once more.
    pub tag_move_after_pull: Option<ClusterImage>,
    /// Every image that was pulled: repository and digest.
    pub pulls: Vec<(String, String)>,
    /// The most that pods of a namespace may use together, as a `ResourceQuota` says it.
    pub quota: Option<ResourceQuota>,
    /// How long the API thinks before it answers.
    pub response_delay: Duration,
    /// How many requests are answered with 429 before the next one is served.
    pub throttled_requests: u32,
}

/// A `ResourceQuota`: its name, and limits such as `pods` or `limits.memory` in units.
#[derive(Debug, Clone, PartialEq)]
pub struct ResourceQuota {
    pub name: String,
    pub hard: BTreeMap<String, f64>,
}

pub struct Faults(Mutex<FaultState>, watch::Sender<()>);

impl Faults {
    pub fn new() -> Faults {
        Faults(Mutex::default(), watch::Sender::new(()))
    }

    pub fn now(&self) -> FaultState {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn change<T>(&self, change: impl FnOnce(&mut FaultState) -> T) -> T {
        let changed = change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
        self.1.send_replace(());
        changed
    }

    /// Tells of every change.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.1.subscribe()
    }
}
