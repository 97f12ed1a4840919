//! The Kubernetes backend: one hardened pod per run, in a separate namespace, with the same guest
//! inside as the other backends.
//!
//! It uses the API server only for pods: no exec, no copy, no secrets. All communication with a pod
//! uses its standard streams and the guest protocol.

mod body;
mod check;
mod client;
mod containers;
pub(crate) mod doctor;
mod guest_copy;
mod image_pins;
mod pod;
mod pod_removal;
mod pod_start;
mod pod_state;
mod stream;
mod sweep;
mod watch;

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use guest::jail::SandboxNetwork;
use guest::protocol::Measurements;
use tokio::io::AsyncWriteExt;
use uuid::Uuid;

use crate::container_backend::{self, PROBE_SHAPE, launch_checked, probe_isolation};
use crate::container_isolation::{ContainerContext, measured_isolation};
use crate::docker::images::{self, Images};
use crate::guest::{Guest, GuestHandle};
use crate::isolation::{Control, Isolation};
use crate::launcher::{LaunchError, Launcher, Owner, Shape};
use crate::seccomp;
use body::PodSettings;
use client::ClusterClient;
pub use guest_copy::copy_guest;
use image_pins::{ImagePins, RunningImages};
use pod::SandboxPod;
use stream::PodStream;
use sweep::{ActivePods, PodOrphanTracker};
use watch::PodWatch;

/// How long a guest may take to report that it is ready, on a loaded node and under gVisor.
const READY_TIMEOUT: Duration = Duration::from_secs(60);

/// The kubelet keeps the output of a run in a log, in which every line starts with the time. Short
/// lines at most double in size.
const LOG_FACTOR: u64 = 2;
const LOG_MARGIN_BYTES: u64 = 64 << 20;

/// The settings of the Kubernetes launcher.
#[derive(Debug, Clone)]
pub struct KubernetesConfig {
    pub owner: Owner,
    /// The configuration for the API server; found like `kubectl` does, or as in a pod, when
    /// `None`.
    pub kubeconfig: Option<PathBuf>,
    /// The namespace of the pods. It should contain nothing else.
    pub namespace: String,
    /// Such as `gvisor` or `kata`; the cluster's default when `None`.
    pub runtime_class: Option<String>,
    /// A Skillbox image of this very build, from which pods copy their guest.
    pub guest_image: String,
    /// A seccomp profile on the nodes; the container runtime's default when `None`.
    pub seccomp_profile: Option<String>,
    /// Whether pods get their own user namespace, on clusters that support it.
    pub user_namespaces: bool,
    /// How long a pod may wait for quota and for a node.
    pub schedule_timeout: Duration,
    /// The longest time that a pod is used once it runs.
    pub lifetime: Duration,
    /// How long the removal of a pod is retried while the API server does not respond. After that a
    /// sweep removes it.
    pub removal_timeout: Duration,
    /// The maximum output of a run: logs, output and files together.
    pub max_output_bytes: u64,
    pub images: Images,
    /// The only images that may be used, including those of the languages.
    pub allowlist: Vec<String>,
    /// The controls that must be in force.
    pub require: Vec<Control>,
}

impl KubernetesConfig {
    /// The longest time that a launch may take.
    pub fn launch_timeout(&self) -> Duration {
        self.schedule_timeout + pod_start::START_TIMEOUT + READY_TIMEOUT
    }
}

/// Starts sandboxes in a cluster.
pub struct KubernetesLauncher {
    config: KubernetesConfig,
    client: ClusterClient,
    watch: PodWatch,
    guest_digest: String,
    pins: ImagePins,
    active: ActivePods,
    orphan_tracker: Mutex<PodOrphanTracker>,
}

impl KubernetesLauncher {
    /// Connects to the API server and starts the watch of its own pods.
    pub async fn start(config: KubernetesConfig) -> Result<KubernetesLauncher, LaunchError> {
        let client =
            ClusterClient::connect(config.kubeconfig.as_deref(), &config.namespace).await?;
        let watch = PodWatch::start(&client, &config.owner);
        Ok(KubernetesLauncher {
            config,
            client,
            watch,
            guest_digest: guest_copy::guest_digest(),
            pins: ImagePins::default(),
            active: ActivePods::default(),
            orphan_tracker: Mutex::default(),
        })
    }

    async fn start_pod(&self, shape: &Shape) -> Result<Guest, LaunchError> {
        let image = images::select_image(shape, &self.config.images, &self.config.allowlist)?;
        let until = tokio::time::Instant::now() + self.config.schedule_timeout;
        loop {
            let requested = [image, &self.config.guest_image].map(|name| self.pins.reference(name));
            let mut pod = self.create_pod(shape, &requested, until).await?;
            let running = pod
                .wait_until_running(&requested[0], until)
                .await
                .map_err(|error| add_pin_hint(error, image))?;
            if !self.matches_pins(image, &requested, &running) {
                // A tag was moved between two pods that were requested by name at the same time,
                // and the other pod has pinned another digest. All runs of a worker must use one
                // image. The next pod is requested by that digest, so there is at most one more
                // round.
                pod.wait_until_removed().await;
                continue;
            }
            let stream = pod.attach().await?;
            let image = image_pins::describe_image(image, running.skill.as_ref());
            return self.connect_guest(pod, stream, shape, &image).await;
        }
    }

    /// Compares the images of a pod with the pinned digests, and pins those that are new.
    fn matches_pins(
        &self,
        image: &str,
        [requested, requested_guest]: &[String; 2],
        running: &RunningImages,
    ) -> bool {
        let guest_image = &self.config.guest_image;
        self.pins.check_or_pin(image, requested, running.skill.as_ref())
            && self.pins.check_or_pin(guest_image, requested_guest, running.guest.as_ref())
    }

    async fn create_pod(
        &self,
        shape: &Shape,
        [image, guest_image]: &[String; 2],
        until: tokio::time::Instant,
    ) -> Result<SandboxPod, LaunchError> {
        let name = format!("skillbox-run-{}", Uuid::new_v4().simple());
        let body = body::sandbox(shape, &self.settings(&name, image, guest_image));
        let guard = (self.active.register(&name), self.config.removal_timeout);
        SandboxPod::create(&self.client, &self.watch, guard, &body, until).await
    }

    /// Sends the guest its confinement, and waits until it is ready.
    async fn connect_guest(
        &self,
        pod: SandboxPod,
        mut stream: PodStream,
        shape: &Shape,
        image: &str,
    ) -> Result<Guest, LaunchError> {
        // A pod always has a network, and nothing in its spec can disable it. So the filter allows
        // scripts no socket at all, and outbound connection attempts cannot be observed.
        let filter = seccomp::program_without_network();
        let confinement = container_backend::confinement(shape, filter);
        let confinement = container_backend::encode_confinement(confinement)?;
        // Errors are ignored: if the guest is gone, waiting for it to be ready fails with a better
        // message.
        let _ = stream.write_all(&confinement).await;
        let _ = stream.flush().await;
        let describe = |measured: &Measurements<'_>| {
            let context = ContainerContext {
                backend: "kubernetes",
                runtime: self.config.runtime_class.as_deref(),
                image,
                network: SandboxNetwork::Own,
                network_isolation: network_isolation(measured),
                limits_enforced_by: "kubelet's cgroup",
            };
            measured_isolation(measured, shape, &context)
        };
        Ok(Guest::connect(stream, Box::new(pod), shape.clone(), READY_TIMEOUT, describe).await?)
    }

    fn settings<'a>(
        &'a self,
        name: &'a str,
        image: &'a str,
        guest_image: &'a str,
    ) -> PodSettings<'a> {
        let config = &self.config;
        let lifetime = config.lifetime + config.launch_timeout();
        PodSettings {
            name,
            namespace: &config.namespace,
            image,
            guest_image,
            guest_digest: &self.guest_digest,
            runtime_class: config.runtime_class.as_deref(),
            seccomp_profile: config.seccomp_profile.as_deref(),
            user_namespaces: config.user_namespaces,
            owner: &config.owner,
            lease_until: container_backend::unix_time_seconds() + lifetime.as_secs(),
            lifetime_seconds: lifetime.as_secs(),
            ephemeral_bytes: config.max_output_bytes * LOG_FACTOR + LOG_MARGIN_BYTES,
        }
    }
}

/// Explains an image that can no longer be pulled by the digest that its name was pinned to.
fn add_pin_hint(error: LaunchError, name: &str) -> LaunchError {
    match error {
        LaunchError::ImageUnfit { image, why } if image != name => {
            let why = format!(
                "{why} (this worker uses the digest that {name} had at first; restart it to use the current one)"
            );
            LaunchError::ImageUnfit { image, why }
        }
        error => error,
    }
}

/// How scripts are isolated from the network of their pod, as the guest measured it.
fn network_isolation(measured: &Measurements<'_>) -> Option<&'static str> {
    match (measured.routes, measured.sockets) {
        (false, _) => Some("own, loopback only"),
        (true, false) => Some("own, with a network; no socket leads to it, nor to loopback"),
        (true, true) => None,
    }
}

#[async_trait]
impl Launcher for KubernetesLauncher {
    async fn launch(&self, shape: &Shape) -> Result<Guest, LaunchError> {
        launch_checked(self.start_pod(shape), &self.config.require).await
    }

    /// The owner of a pod does not matter here: the active pods are this launcher's, and all others
    /// may be orphans.
    async fn sweep(&self, _: &Owner) -> Result<usize, LaunchError> {
        let all = self.client.list_owned().await?;
        let start_timeout = self.config.launch_timeout();
        let orphans = {
            let mut tracker = self.orphan_tracker.lock().unwrap_or_else(PoisonError::into_inner);
            tracker.find_orphans(&all, &self.active, start_timeout, Instant::now())
        };
        for name in &orphans {
            self.client.delete(name).await?;
        }
        Ok(orphans.len())
    }

    async fn probe(&self) -> Result<Isolation, LaunchError> {
        probe_isolation(self.start_pod(&PROBE_SHAPE), &self.config.require).await
    }
}

#[cfg(test)]
mod tests {
    use guest::protocol::FromGuest;

    use super::*;

    #[test]
    fn network_isolation_follows_from_routes_and_sockets() {
        let FromGuest::Ready(measured) = crate::fake_guest::ready() else {
            panic!("a guest that is ready")
        };
        let isolation = |routes, sockets| {
            network_isolation(&Measurements { routes, sockets, ..measured.clone() })
        };
        assert_eq!(isolation(true, true), None, "with a network and sockets nothing isolates");
        assert!(isolation(true, false).is_some_and(|how| how.contains("nor to loopback")));
        assert!(isolation(false, true).is_some_and(|how| how.ends_with("loopback only")));
    }
}
