//! The only node of the cluster: kubelet and container runtime. It runs the containers of pods with
//! `runc`.

pub(crate) mod bundle;
mod cgroup;
pub(crate) mod container;
pub(crate) mod image;
mod lifecycle;
mod status;
pub(crate) mod streams;
mod volumes;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::faults::Faults;
use crate::store::PodStore;
use container::RuncContainer;
use image::ClusterImage;

pub(crate) use status::condition;

/// The configuration of the node.
pub(crate) struct NodeSettings {
    pub images: Vec<ClusterImage>,
    /// The process limit of a pod, like a kubelet's `podPidsLimit`.
    pub pod_pids: u32,
    /// The `Localhost` seccomp profiles, by path.
    pub profiles: BTreeMap<String, Value>,
    /// The directory of all files of the node.
    pub directory: PathBuf,
}

pub(crate) struct ClusterNode {
    setup: NodeSettings,
    store: Arc<PodStore>,
    faults: Arc<Faults>,
    hosted: Mutex<HashMap<String, Arc<HostedPod>>>,
    tasks: TaskTracker,
    /// Cancelled when the node shuts down.
    end: CancellationToken,
    count: AtomicU32,
}

/// A pod on this node.
pub(crate) struct HostedPod {
    orders: mpsc::UnboundedSender<NodeCommand>,
    containers: Mutex<BTreeMap<String, Arc<RuncContainer>>>,
    /// The node's machine has failed: it sends nothing any more, not even the end of a stream.
    pub lost: CancellationToken,
    /// Cancelled when attached clients must be disconnected.
    pub wait_until_removed: CancellationToken,
}

/// An event of a pod that does not come from an API request.
#[derive(Debug, Clone)]
pub(crate) enum NodeCommand {
    Evict(String),
    Lose,
}

impl ClusterNode {
    pub(crate) fn new(
        setup: NodeSettings,
        store: Arc<PodStore>,
        faults: Arc<Faults>,
    ) -> Arc<ClusterNode> {
        Arc::new(ClusterNode {
            setup,
            store,
            faults,
            hosted: Mutex::default(),
            tasks: TaskTracker::new(),
            end: CancellationToken::new(),
            count: AtomicU32::new(0),
        })
    }

    /// Runs a new pod until it is removed.
    pub(crate) fn host(self: &Arc<ClusterNode>, pod: &Pod) {
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let (orders, received) = mpsc::unbounded_channel();
        let hosted = Arc::new(HostedPod {
            orders,
            containers: Mutex::default(),
            lost: CancellationToken::new(),
            wait_until_removed: CancellationToken::new(),
        });
        self.hosted
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(uid.clone(), hosted.clone());
        let (node, pod) = (self.clone(), pod.clone());
        self.tasks.spawn(async move {
            lifecycle::run_pod(node.clone(), pod, hosted.clone(), received).await;
            hosted.wait_until_removed.cancel();
            node.hosted.lock().unwrap_or_else(PoisonError::into_inner).remove(&uid);
        });
    }

    /// The pod with this UID, if it is on this node.
    pub(crate) fn hosted(&self, uid: &str) -> Option<Arc<HostedPod>> {
        self.hosted.lock().unwrap_or_else(PoisonError::into_inner).get(uid).cloned()
    }

    /// The number of pods with an object in the API or a process on this node.
    pub(crate) fn count(&self) -> usize {
        self.hosted.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Kills all containers and waits until everything is removed.
    pub(crate) async fn end(&self) {
        self.end.cancel();
        self.tasks.close();
        let _ = tokio::time::timeout(Duration::from_secs(20), self.tasks.wait()).await;
    }

    fn next_number(&self) -> u32 {
        self.count.fetch_add(1, Ordering::Relaxed)
    }

    /// Pulls an image by its tag, which can be moved, or by its digest, which cannot.
    fn pull(&self, reference: &str) -> Option<ClusterImage> {
        self.faults.change(|faults| {
            let mut all = faults.moved_tags.iter().chain(&self.setup.images);
            let found = match reference.split_once('@') {
                Some((repository, digest)) => {
                    all.find(|image| image.repository() == repository && image.digest() == digest)
                }
                None => all.find(|image| image.name == reference),
            };
            let image = found.filter(|image| !faults.missing_images.contains(&image.name))?.clone();
            faults.pulls.push((image.repository().to_owned(), image.digest()));
            let moving = faults.tag_move_after_pull.take_if(|moving| moving.name == reference);
            faults.moved_tags.splice(0..0, moving);
            Some(image)
        })
    }
}

impl HostedPod {
    pub(crate) fn order(&self, order: NodeCommand) {
        // The receiver is gone when the pod has ended.
        let _ = self.orders.send(order);
    }

    pub(crate) fn container(&self, name: &str) -> Option<Arc<RuncContainer>> {
        self.containers.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    fn add(&self, name: &str, container: Arc<RuncContainer>) {
        self.containers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(name.to_owned(), container);
    }

    fn all(&self) -> Vec<Arc<RuncContainer>> {
        self.containers.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }
}
