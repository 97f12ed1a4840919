//! The one node of the cluster: kubelet and container runtime. It runs what pods say in containers
//! of `runc`.

pub mod bundle;
mod cgroup;
pub mod container;
pub mod image;
mod life;
mod status;
pub mod streams;
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
use crate::store::Store;
use container::Container;
use image::Image;

pub use status::condition;

/// What the node is like.
pub struct Setup {
    pub images: Vec<Image>,
    /// The most processes of one pod, as a kubelet's `podPidsLimit` says.
    pub pod_pids: u32,
    /// What `Localhost` seccomp profiles there are, by path.
    pub profiles: BTreeMap<String, Value>,
    /// Where everything is kept.
    pub directory: PathBuf,
}

pub struct Node {
    setup: Setup,
    store: Arc<Store>,
    faults: Arc<Faults>,
    hosted: Mutex<HashMap<String, Arc<Hosted>>>,
    tasks: TaskTracker,
    /// Ends everything.
    end: CancellationToken,
    count: AtomicU32,
}

/// A pod on this node.
pub struct Hosted {
    orders: mpsc::UnboundedSender<Order>,
    containers: Mutex<BTreeMap<String, Arc<Container>>>,
    /// The machine below it is gone: nothing comes from it any more, not even the end of anything.
    pub lost: CancellationToken,
    /// Whatever was attached to it is to be cut.
    pub gone: CancellationToken,
}

/// What happens to a pod that nobody asked the API for.
#[derive(Debug, Clone)]
pub enum Order {
    Evict(String),
    Lose,
}

impl Node {
    pub fn new(setup: Setup, store: Arc<Store>, faults: Arc<Faults>) -> Arc<Node> {
        Arc::new(Node {
            setup,
            store,
            faults,
            hosted: Mutex::default(),
            tasks: TaskTracker::new(),
            end: CancellationToken::new(),
            count: AtomicU32::new(0),
        })
    }

    /// Takes care of a new pod, to its end.
    pub fn host(self: &Arc<Node>, pod: &Pod) {
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let (orders, received) = mpsc::unbounded_channel();
        let hosted = Arc::new(Hosted {
            orders,
            containers: Mutex::default(),
            lost: CancellationToken::new(),
            gone: CancellationToken::new(),
        });
        self.hosted
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(uid.clone(), hosted.clone());
        let (node, pod) = (self.clone(), pod.clone());
        self.tasks.spawn(async move {
            life::live(node.clone(), pod, hosted.clone(), received).await;
            hosted.gone.cancel();
            node.hosted.lock().unwrap_or_else(PoisonError::into_inner).remove(&uid);
        });
    }

    /// A pod that is here.
    pub fn hosted(&self, uid: &str) -> Option<Arc<Hosted>> {
        self.hosted.lock().unwrap_or_else(PoisonError::into_inner).get(uid).cloned()
    }

    /// How many pods have something here: an object of the API or a process.
    pub fn count(&self) -> usize {
        self.hosted.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Kills everything and waits until it is gone.
    pub async fn end(&self) {
        self.end.cancel();
        self.tasks.close();
        let _ = tokio::time::timeout(Duration::from_secs(20), self.tasks.wait()).await;
    }

    fn next_number(&self) -> u32 {
        self.count.fetch_add(1, Ordering::Relaxed)
    }

    /// What a registry has under a tag now, or under a digest for ever.
    fn pull(&self, reference: &str) -> Option<Image> {
        self.faults.change(|trouble| {
            let mut all = trouble.moved_tags.iter().chain(&self.setup.images);
            let found = match reference.split_once('@') {
                Some((repository, digest)) => {
                    all.find(|image| image.repository() == repository && image.digest() == digest)
                }
                None => all.find(|image| image.name == reference),
            };
            let image =
                found.filter(|image| !trouble.missing_images.contains(&image.name))?.clone();
            trouble.pulls.push((image.repository().to_owned(), image.digest()));
            let moving = trouble.moving_tag.take_if(|moving| moving.name == reference);
            trouble.moved_tags.splice(0..0, moving);
            Some(image)
        })
    }
}

impl Hosted {
    pub fn order(&self, order: Order) {
        // A pod that is over takes none.
        let _ = self.orders.send(order);
    }

    pub fn container(&self, name: &str) -> Option<Arc<Container>> {
        self.containers.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    fn add(&self, name: &str, container: Arc<Container>) {
        self.containers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(name.to_owned(), container);
    }

    fn all(&self) -> Vec<Arc<Container>> {
        self.containers.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }
}
