//! The Kubernetes sandbox: one hardened pod a run, in a namespace of its own, with the same guest
//! inside.
//!
//! It asks an API server for pods and nothing else: no executing, no copying, no secrets. All that
//! is said to a pod goes through its standard streams, and is the same conversation as everywhere.

mod body;
mod check;
mod cluster;
pub mod doctor;
mod pins;
mod pod;
mod standing;
mod stream;
mod sweep;
mod watch;

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use guest::jail::SandboxNetwork;
use guest::protocol::Measurements;
use sha2::{Digest, Sha256};
use tokio::io::AsyncWriteExt;
use uuid::Uuid;

use crate::contained::{self, Around, PROBE};
use crate::docker::images::{self, Images};
use crate::guest::{Guest, GuestHandle};
use crate::isolation::{Control, Isolation};
use crate::launcher::{LaunchError, Launcher, Owner, Shape};
use crate::program;
use crate::seccomp;
use body::Setting;
use cluster::Cluster;
use pins::Pins;
use pod::Pod;
use stream::Attached;
use sweep::{Held, Seen};
use watch::Watch;

/// How long a guest may take to say that it is ready, on a node under load and under gVisor.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// A tenant's lines are a few bytes longer in the kubelet's log, which starts each with the time.
const LOG_FACTOR: u64 = 2;
const LOG_MARGIN: u64 = 64 << 20;

/// The settings of the Kubernetes launcher.
#[derive(Debug, Clone)]
pub struct KubernetesConfig {
    pub owner: Owner,
    /// How to reach the API server; as `kubectl` finds out, or as a pod does, when `None`.
    pub kubeconfig: Option<PathBuf>,
    /// Where the pods are made. It should hold nothing else.
    pub namespace: String,
    /// Such as `gvisor` or `kata`; the cluster's default when `None`.
    pub runtime_class: Option<String>,
    /// A Skillbox image of this very build, from which pods get their guest.
    pub guest_image: String,
    /// A seccomp profile on the nodes; the container runtime's default when `None`.
    pub seccomp_profile: Option<String>,
    /// Whether pods get a user namespace of their own, where the cluster has them.
    pub user_namespaces: bool,
    /// How long a pod may wait for quota and for a node.
    pub schedule_timeout: Duration,
    /// No pod is wanted longer than this once it runs.
    pub lifetime: Duration,
    /// How long the removal of a pod is tried while the API server does not answer. After that it
    /// is the sweep's.
    pub removing: Duration,
    /// The most that a run may say: logs, output and files together.
    pub said_bytes: u64,
    pub images: Images,
    /// The only images that are ever used, those of the runtimes included.
    pub allowlist: Vec<String>,
    /// Controls without which nothing runs.
    pub require: Vec<Control>,
}

impl KubernetesConfig {
    /// How long a launch may take at most.
    pub fn launched_within(&self) -> Duration {
        self.schedule_timeout + pod::STARTING + READY_WITHIN
    }
}

/// Makes sandboxes in a cluster.
pub struct KubernetesLauncher {
    config: KubernetesConfig,
    cluster: Cluster,
    watch: Watch,
    guest_digest: String,
    pins: Pins,
    held: Held,
    seen: Mutex<Seen>,
}

impl KubernetesLauncher {
    /// Connects to the API server and begins to watch its own pods.
    pub async fn start(config: KubernetesConfig) -> Result<KubernetesLauncher, LaunchError> {
        let cluster = Cluster::connect(config.kubeconfig.as_deref(), &config.namespace).await?;
        let watch = Watch::start(&cluster, &config.owner);
        let guest_digest = program_digest();
        let (pins, held, seen) = (Pins::default(), Held::default(), Mutex::default());
        Ok(KubernetesLauncher { config, cluster, watch, guest_digest, pins, held, seen })
    }

    async fn start_guest(&self, shape: &Shape) -> Result<Guest, LaunchError> {
        let image = images::choose(shape, &self.config.images, &self.config.allowlist)?;
        let until = tokio::time::Instant::now() + self.config.schedule_timeout;
        loop {
            let asked = [image, &self.config.guest_image].map(|name| self.pins.reference(name));
            let mut pod = self.create_pod(shape, &asked, until).await?;
            let ran =
                pod.running(&asked[0], until).await.map_err(|error| explain_pin(error, image))?;
            let kept = [(image, &ran.skill), (&*self.config.guest_image, &ran.guest)];
            let kept = kept
                .iter()
                .zip(&asked)
                .all(|((name, ran), asked)| self.pins.keep(name, asked, ran.as_ref()));
            if !kept {
                // A tag was moved between two first pods. The next one is asked for by digest, so
                // this ends.
                pod.wait_until_removed().await;
                continue;
            }
            let stream = pod.attach().await?;
            return self
                .greet(pod, stream, shape, &pins::reported(image, ran.skill.as_ref()))
                .await;
        }
    }

    async fn create_pod(
        &self,
        shape: &Shape,
        [image, guest_image]: &[String; 2],
        until: tokio::time::Instant,
    ) -> Result<Pod, LaunchError> {
        let name = format!("skillbox-run-{}", Uuid::new_v4().simple());
        let body = body::sandbox(shape, &self.setting(&name, image, guest_image));
        let holding = (self.held.hold(&name), self.config.removing);
        Pod::create(&self.cluster, &self.watch, holding, &body, until).await
    }

    /// Tells the guest how to confine itself, and waits until it has.
    async fn greet(
        &self,
        pod: Pod,
        mut stream: Attached,
        shape: &Shape,
        image: &str,
    ) -> Result<Guest, LaunchError> {
        // A pod has a network, and no word of ours takes it away. So no script gets a socket that
        // could lead there, and there is no call for other machines to be seen.
        let confinement =
            contained::encode(contained::confinement(shape, seccomp::program_without_network()))?;
        // When this fails the guest is gone, which is noticed in the next step.
        let _ = stream.write_all(&confinement).await;
        let _ = stream.flush().await;
        let describe = |measured: &Measurements<'_>| {
            let around = Around {
                backend: "kubernetes",
                runtime: self.config.runtime_class.as_deref(),
                image,
                network: SandboxNetwork::Own,
                closed: closed(measured),
                keeper: "kubelet's cgroup",
            };
            contained::isolation(measured, shape, &around)
        };
        Ok(Guest::connect(stream, Box::new(pod), shape.clone(), READY_WITHIN, describe).await?)
    }

    fn setting<'a>(&'a self, name: &'a str, image: &'a str, guest_image: &'a str) -> Setting<'a> {
        let config = &self.config;
        let lifetime = config.lifetime + config.launched_within();
        Setting {
            name,
            namespace: &config.namespace,
            image,
            guest_image,
            guest_digest: &self.guest_digest,
            runtime_class: config.runtime_class.as_deref(),
            seccomp_profile: config.seccomp_profile.as_deref(),
            user_namespaces: config.user_namespaces,
            owner: &config.owner,
            lease_until: sweep::seconds_since_1970() + lifetime.as_secs(),
            lifetime_seconds: lifetime.as_secs(),
            ephemeral_bytes: config.said_bytes * LOG_FACTOR + LOG_MARGIN,
        }
    }
}

/// An image that cannot be had any more by the digest that its name led to first.
fn explain_pin(error: LaunchError, name: &str) -> LaunchError {
    match error {
        LaunchError::ImageUnfit { image, why } if image != name => {
            let why = format!(
                "{why} (this worker keeps to the digest that {name} led to first; restart it to use what it leads to now)"
            );
            LaunchError::ImageUnfit { image, why }
        }
        error => error,
    }
}

/// How scripts are kept from the network of their pod, by what the guest saw.
fn closed(measured: &Measurements<'_>) -> Option<&'static str> {
    match (measured.routes, measured.sockets) {
        (false, _) => Some("own, loopback only"),
        (true, false) => Some("own, with a network; no socket leads to it, nor to loopback"),
        (true, true) => None,
    }
}

/// The SHA-256 of the guest that this program carries.
fn program_digest() -> String {
    Sha256::digest(program::GUEST).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[async_trait]
impl Launcher for KubernetesLauncher {
    async fn launch(&self, shape: &Shape) -> Result<Guest, LaunchError> {
        self.start_guest(shape).await?.holding(&self.config.require).await
    }

    /// Whose a pod is does not matter: what is held here is this launcher's, and all else may be
    /// abandoned.
    async fn sweep(&self, _: &Owner) -> Result<usize, LaunchError> {
        let all = self.cluster.owned().await?;
        let starting = self.config.launched_within();
        let abandoned = {
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.abandoned(&all, &self.held, starting, Instant::now())
        };
        for name in &abandoned {
            self.cluster.delete(name).await?;
        }
        Ok(abandoned.len())
    }

    async fn probe(&self) -> Result<Isolation, LaunchError> {
        let guest = self.start_guest(&PROBE).await?.holding(&self.config.require).await?;
        let isolation = guest.isolation().clone();
        guest.discard().await;
        Ok(isolation)
    }
}

/// Puts the guest that this program carries into a directory, for a pod: what its init container
/// does. It is refused when somebody wants another one.
pub fn copy_guest(directory: &std::path::Path, wanted: Option<&str>) -> Result<(), String> {
    use std::os::unix::fs::PermissionsExt;

    if wanted.is_some_and(|wanted| wanted != program_digest()) {
        return Err("this image carries another guest than the worker wants: \
                    SKILLBOX_KUBE_GUEST_IMAGE must be the image of the worker itself"
            .to_owned());
    }
    let (partial, place) = (directory.join(".skillbox-guest"), directory.join("skillbox-guest"));
    let copied = std::fs::write(&partial, program::GUEST)
        .and_then(|()| std::fs::set_permissions(&partial, std::fs::Permissions::from_mode(0o555)))
        .and_then(|()| std::fs::rename(&partial, &place));
    copied.map_err(|error| format!("could not put the guest into {}: {error}", directory.display()))
}

#[cfg(test)]
mod tests {
    use guest::protocol::FromGuest;

    use super::*;

    #[test]
    fn what_keeps_scripts_from_the_network_is_told_with_its_price() {
        let FromGuest::Ready(measured) = crate::fake_guest::ready() else {
            panic!("a guest that is ready")
        };
        let closed =
            |routes, sockets| closed(&Measurements { routes, sockets, ..measured.clone() });
        assert_eq!(closed(true, true), None, "a network and a socket are a way out");
        assert!(closed(true, false).is_some_and(|how| how.contains("nor to loopback")));
        assert!(closed(false, true).is_some_and(|how| how.ends_with("loopback only")));
    }

    #[test]
    fn the_guest_is_copied_whole_and_only_the_one_that_is_wanted() {
        let directory = tempfile::tempdir().expect("a directory");
        let error = copy_guest(directory.path(), Some("other")).expect_err("another one");
        assert!(error.contains("SKILLBOX_KUBE_GUEST_IMAGE"), "{error}");
        assert_eq!(std::fs::read_dir(directory.path()).expect("a directory").count(), 0);
        // Twice: a pod may start its init container again.
        for _ in 0..2 {
            copy_guest(directory.path(), Some(&program_digest())).expect("copied");
        }
        assert_eq!(
            std::fs::read(directory.path().join("skillbox-guest")).expect("a file"),
            program::GUEST
        );
        assert_eq!(std::fs::read_dir(directory.path()).expect("a directory").count(), 1);
        assert!(copy_guest(&directory.path().join("nowhere"), None).is_err());
    }
}
