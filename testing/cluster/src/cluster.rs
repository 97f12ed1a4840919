//! The whole cluster, with the methods that tests use.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use data_encoding::BASE64;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::watch;
use uuid::Uuid;

use crate::access::{AccessControl, RbacRule};
use crate::api::{self, ApiState, ClusterNamespace};
use crate::defaults::now;
use crate::faults::{FaultState, Faults, ResourceQuota};
use crate::node::image::ClusterImage;
use crate::node::{self, ClusterNode, NodeCommand, NodeSettings};
use crate::server::ApiServer;
use crate::store::PodStore;
use crate::tls;

/// The configuration of a cluster.
#[derive(Debug, Clone)]
pub struct ClusterSettings {
    pub namespaces: Vec<ClusterNamespace>,
    pub images: Vec<ClusterImage>,
    /// The process limit of a pod.
    pub pod_pids: u32,
    /// `Localhost` seccomp profiles of the node, by path.
    pub profiles: BTreeMap<String, Value>,
}

impl ClusterSettings {
    /// One namespace that enforces the restricted standard, and no image.
    pub fn new(namespace: &str) -> ClusterSettings {
        let namespaces = vec![ClusterNamespace { name: namespace.to_owned(), restricted: true }];
        ClusterSettings { namespaces, images: vec![], pod_pids: 1024, profiles: BTreeMap::new() }
    }
}

/// A running cluster. Dropping it closes its connections and removes its containers and files.
pub struct TestCluster {
    api: Arc<ApiState>,
    server: Arc<ApiServer>,
    directory: TempDir,
    certificate: Vec<u8>,
    /// A separate runtime, so that a test which blocks on a program does not block the cluster's
    /// responses to it.
    runtime: Option<tokio::runtime::Runtime>,
}

/// The requirement that this machine does not meet, for the message of a skipped test.
pub fn missing_requirement() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("root, to run containers".to_owned());
    }
    let there = |program: &str| {
        ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"]
            .iter()
            .any(|directory| Path::new(directory).join(program).exists())
    };
    let missing =
        ["runc", "unshare", "nsenter", "openssl"].into_iter().find(|program| !there(program))?;
    Some(format!("the program {missing}"))
}

impl TestCluster {
    pub fn start(settings: ClusterSettings) -> io::Result<TestCluster> {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let directory = tempfile::Builder::new().prefix("cluster-").tempdir()?;
        // Containers with other users access it.
        std::fs::set_permissions(
            directory.path(),
            std::os::unix::fs::PermissionsExt::from_mode(0o755),
        )?;
        let identity = tls::make(directory.path())?;
        let (store, faults) = (Arc::new(PodStore::new()), Arc::new(Faults::new()));
        let setup = NodeSettings {
            images: settings.images,
            pod_pids: settings.pod_pids,
            profiles: settings.profiles,
            directory: directory.path().to_owned(),
        };
        let api = Arc::new(ApiState {
            node: ClusterNode::new(setup, store.clone(), faults.clone()),
            store,
            faults,
            access: AccessControl::default(),
            namespaces: settings.namespaces,
            watches: watch::Sender::new(0),
            attachments: watch::Sender::new(0),
        });
        let _entered = runtime.enter();
        let server = Arc::new(ApiServer::start(api::router(api.clone()), identity.acceptor)?);
        drop(_entered);
        Ok(TestCluster {
            api,
            server,
            directory,
            certificate: identity.certificate,
            runtime: Some(runtime),
        })
    }

    /// Writes a kubeconfig for clients that authenticate as `user` with these permissions.
    pub fn kubeconfig(
        &self,
        user: &str,
        namespace: &str,
        rules: Vec<RbacRule>,
    ) -> io::Result<PathBuf> {
        let token = Uuid::new_v4().simple().to_string();
        self.api.access.grant(&token, user, rules);
        let cluster = json!({"server": self.url(), "certificate-authority-data": BASE64.encode(&self.certificate)});
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": user, "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": user, "namespace": namespace}}],
        });
        let path = self.directory.path().join(format!("kubeconfig-{token}"));
        std::fs::write(&path, config.to_string())?;
        Ok(path)
    }

    /// Replaces the rules of the user of a kubeconfig.
    pub fn set_rules(&self, kubeconfig: &Path, rules: Vec<RbacRule>) {
        let text = std::fs::read_to_string(kubeconfig).unwrap_or_default();
        let config: Value = serde_json::from_str(&text).unwrap_or_default();
        let user = &config["users"][0];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        self.api.access.grant(&text(&user["user"]["token"]), &text(&user["name"]), rules);
    }

    pub fn url(&self) -> String {
        format!("https://{}", self.server.address())
    }

    /// All pods in the API.
    pub fn pods(&self) -> Vec<Pod> {
        self.api.store.list(None).1
    }

    /// The number of pods on the node, including those that no longer exist in the API.
    pub fn node_pod_count(&self) -> usize {
        self.api.node.count()
    }

    /// Waits until the pods meet a condition; false after a minute.
    pub async fn wait_until(&self, wanted: impl Fn(&[Pod]) -> bool) -> bool {
        let mut revisions = self.api.store.revisions();
        let reached = async {
            while !wanted(&self.pods()) {
                if revisions.changed().await.is_err() {
                    return;
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(60), reached).await.is_ok()
    }

    /// Waits until no pod is left in the API or on the node; false after a minute.
    pub async fn wait_until_empty(&self) -> bool {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
        while !(self.pods().is_empty() && self.node_pod_count() == 0) {
            if tokio::time::Instant::now() > deadline {
                return false;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        true
    }

    /// Stops the API server: it closes all connections and refuses new ones. Pods keep running.
    pub async fn stop_api(&self) {
        let server = self.server.clone();
        if let Some(runtime) = &self.runtime {
            let _ = runtime.spawn(async move { server.stop().await }).await;
        }
    }

    /// Starts the API server again at the same address and with the same objects.
    pub fn resume_api(&self) -> io::Result<()> {
        let _entered = self.runtime.as_ref().map(|runtime| runtime.enter());
        self.server.resume()
    }

    /// Ends every watch, as if the connection had been interrupted.
    pub fn drop_watches(&self) {
        self.api.watches.send_modify(|count| *count += 1);
    }

    /// Disconnects every client that is attached to a container.
    pub fn drop_attachments(&self) {
        self.api.attachments.send_modify(|count| *count += 1);
    }

    /// Removes the history of changes: a watch that resumes at an older revision gets `410 Gone`.
    pub fn compact(&self) {
        self.api.store.compact();
    }

    /// Sets whether the node has no capacity for new pods.
    pub fn set_node_full(&self, full: bool) {
        self.change_faults(|faults| faults.node_full = full);
    }

    /// Sets whether an image is missing in its registry.
    pub fn set_image_missing(&self, name: &str, missing: bool) {
        self.change_faults(|faults| {
            if missing {
                faults.missing_images.insert(name.to_owned());
            } else {
                faults.missing_images.remove(name);
            }
        });
    }

    /// Moves a tag to a new image. The old image stays available by its digest.
    pub fn move_tag(&self, image: ClusterImage) {
        self.change_faults(|faults| faults.moved_tags.insert(0, image));
    }

    /// Moves a tag to a new image after the next pull of that tag.
    pub fn move_tag_after_next_pull(&self, image: ClusterImage) {
        self.change_faults(|faults| faults.tag_move_after_pull = Some(image));
    }

    /// The digests that were pulled from a repository, oldest first.
    pub fn pulled_digests(&self, repository: &str) -> Vec<String> {
        let pulls = self.api.faults.now().pulls.into_iter();
        pulls.filter(|(from, _)| from == repository).map(|(_, digest)| digest).collect()
    }

    pub fn set_quota(&self, quota: Option<ResourceQuota>) {
        self.change_faults(|faults| faults.quota = quota);
    }

    /// Delays every response of the API.
    pub fn set_response_delay(&self, response_delay: Duration) {
        self.change_faults(|faults| faults.response_delay = response_delay);
    }

    /// Rejects the next requests with `429 Too Many Requests`.
    pub fn throttle_requests(&self, requests: u32) {
        self.change_faults(|faults| faults.throttled_requests = requests);
    }

    /// The node evicts a pod with this message.
    pub fn evict(&self, pod: &Pod, message: &str) {
        self.send_command(pod, NodeCommand::Evict(message.to_owned()));
    }

    /// The machine of a pod fails: its processes are killed, and neither watches nor attached
    /// clients are notified. Its object stays in the state "running".
    pub fn lose_node(&self, pod: &Pod) {
        self.send_command(pod, NodeCommand::Lose);
    }

    /// What a cluster's controllers do minutes after a machine has failed: they mark its pod as
    /// disrupted and delete it. The object stays until it is deleted by force, because its node
    /// cannot confirm the end.
    pub fn mark_node_lost(&self, pod: &Pod) {
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        let metadata = &pod.metadata;
        let (namespace, name, uid) =
            (text(&metadata.namespace), text(&metadata.name), text(&metadata.uid));
        self.api.store.update(&namespace, &name, &uid, |pod| {
            let why = "Taint manager: deleting due to NoExecute taint";
            node::condition(pod, "Ready", false, Some(("NodeNotReady", "")));
            node::condition(pod, "DisruptionTarget", true, Some(("DeletionByTaintManager", why)));
            pod.metadata.deletion_timestamp = Some(now());
            pod.metadata.deletion_grace_period_seconds = Some(30);
        });
    }

    /// Removes the finalizers of a pod.
    pub fn remove_finalizers(&self, pod: &Pod) {
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        let metadata = &pod.metadata;
        let (namespace, name, uid) =
            (text(&metadata.namespace), text(&metadata.name), text(&metadata.uid));
        self.api.store.update(&namespace, &name, &uid, |pod| pod.metadata.finalizers = None);
        let over = self.api.store.get_uid(&namespace, &name, &uid).filter(|pod| {
            pod.metadata.deletion_timestamp.is_some()
                && pod.metadata.deletion_grace_period_seconds == Some(0)
        });
        if over.is_some() {
            self.api.store.remove(&namespace, &name, &uid);
        }
    }

    fn send_command(&self, pod: &Pod, order: NodeCommand) {
        if let Some(hosted) = self.api.node.hosted(pod.metadata.uid.as_deref().unwrap_or_default())
        {
            hosted.order(order);
        }
    }

    fn change_faults(&self, change: impl FnOnce(&mut FaultState)) {
        self.api.faults.change(change);
    }
}

impl Drop for TestCluster {
    fn drop(&mut self) {
        let Some(runtime) = self.runtime.take() else { return };
        let (server, api) = (self.server.clone(), self.api.clone());
        // A thread without a runtime: one runtime cannot block on another.
        let ended = std::thread::spawn(move || {
            runtime.block_on(async {
                api.node.end().await;
                server.stop().await;
            });
            runtime.shutdown_timeout(Duration::from_secs(5));
        });
        let _ = ended.join();
    }
}
