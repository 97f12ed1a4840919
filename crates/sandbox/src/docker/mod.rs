//! The Docker backend: one hardened container per run, on a local or remote engine, with the same
//! guest inside as the other backends.
//!
//! It uses an engine only to create and remove containers: no copy, no exec, no bind mounts of host
//! paths. All communication with a container uses its standard streams and the guest protocol.

mod body;
mod check;
mod client;
mod container;
pub(crate) mod doctor;
mod filler;
mod guest_volume;
mod gvisor;
pub(crate) mod images;
mod kernel;
mod sweep;
mod vulnerabilities;

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use guest::jail::SandboxNetwork;
use guest::protocol::Measurements;
use tokio::io::AsyncWriteExt;
use tokio::sync::Mutex as AsyncMutex;
use uuid::Uuid;

use crate::container_backend::{self, PROBE_SHAPE, launch_checked, probe_isolation};
use crate::container_isolation::{ContainerContext, measured_isolation};
use crate::guest::Guest;
use crate::isolation::{Control, Isolation};
use crate::launcher::{LaunchError, Launcher, Owner, Shape};
use crate::network::HostNetworkPermit;
use crate::seccomp;
use body::ContainerSettings;
use client::{ContainerStream, DockerClient};
use container::DockerContainer;
pub use filler::{FILLER_ENTRYPOINT, MAX_FILL_BYTES};
use guest_volume::GuestVolume;
pub use images::Images;
use sweep::{ContainerOrphanTracker, OrphanContainer};

/// How long a guest may take to report that it is ready, on a loaded machine and under gVisor.
const READY_TIMEOUT: Duration = Duration::from_secs(60);

/// Added to the lifetime of a container for its lease: the time to start it, and the difference
/// between the clocks of the workers that create and sweep containers.
const LEASE_SLACK: Duration = Duration::from_secs(3600);

/// The settings of the Docker launcher.
#[derive(Debug, Clone)]
pub struct DockerConfig {
    pub owner: Owner,
    /// `unix://…` or `tcp://…`.
    pub host: String,
    /// An OCI runtime by the engine's name for it, such as `runsc`; the engine's default when
    /// `None`.
    pub runtime: Option<String>,
    /// The longest time that a container is used once it runs.
    pub lifetime: Duration,
    pub images: Images,
    /// The only images that may be used, including those of the languages.
    pub allowlist: Vec<String>,
    /// The controls that must be in force.
    pub require: Vec<Control>,
}

/// Starts sandboxes on a Docker engine.
pub struct DockerLauncher {
    config: DockerConfig,
    network: SandboxNetwork,
    client: DockerClient,
    volume: GuestVolume,
    /// Whether the engine has the guest volume. Locked while it is filled, so that concurrent
    /// launches fill it once.
    is_filled: AsyncMutex<bool>,
    orphan_tracker: Mutex<ContainerOrphanTracker>,
    #[cfg(feature = "weakened")]
    without: Option<crate::weakened::Defence>,
}

impl DockerLauncher {
    /// Connects to the engine.
    pub async fn start(config: DockerConfig) -> Result<DockerLauncher, LaunchError> {
        let client = DockerClient::connect(&config.host).await?;
        let volume = GuestVolume::for_host(&config.host);
        let (is_filled, orphan_tracker) = (AsyncMutex::new(false), Mutex::default());
        Ok(DockerLauncher {
            config,
            network: SandboxNetwork::Own,
            client,
            volume,
            is_filled,
            orphan_tracker,
            #[cfg(feature = "weakened")]
            without: None,
        })
    }

    /// For tests which show that an attack succeeds without this defence.
    #[cfg(feature = "weakened")]
    pub async fn start_without(
        config: DockerConfig,
        defence: crate::weakened::Defence,
    ) -> Result<DockerLauncher, LaunchError> {
        Ok(DockerLauncher { without: Some(defence), ..DockerLauncher::start(config).await? })
    }

    /// Like [`DockerLauncher::start`], for containers on the network of the engine's machine.
    pub async fn start_on_host_network(
        config: DockerConfig,
        _: HostNetworkPermit,
    ) -> Result<DockerLauncher, LaunchError> {
        Ok(DockerLauncher { network: SandboxNetwork::Host, ..DockerLauncher::start(config).await? })
    }

    async fn start_container(&self, shape: &Shape) -> Result<Guest, LaunchError> {
        let image = images::select_image(shape, &self.config.images, &self.config.allowlist)?;
        let image_id = images::resolve_image_id(&self.client, image).await?;
        self.ensure_guest_volume().await?;
        let body = body::sandbox(shape, &self.settings(&image_id));
        let name = format!("skillbox-run-{}", Uuid::new_v4().simple());
        let mut container = DockerContainer::create(&self.client, name, &body).await?;
        let stream = match container.start(true).await {
            Ok(stream) => stream,
            Err(error) => {
                // The volume may have been removed from the engine. The next launch creates it
                // again.
                *self.is_filled.lock().await = false;
                return Err(error);
            }
        };
        self.connect_guest(container, stream, shape, &image_id).await
    }

    /// Sends the guest its confinement, and waits until it is ready.
    async fn connect_guest(
        &self,
        container: DockerContainer,
        mut stream: ContainerStream,
        shape: &Shape,
        image_id: &str,
    ) -> Result<Guest, LaunchError> {
        let confinement = container_backend::confinement(shape, seccomp::program(self.network));
        #[cfg(feature = "weakened")]
        let confinement = crate::weakened::confine(confinement, self.without);
        // Errors are ignored: if the guest is gone, waiting for it to be ready fails with a better
        // message.
        let _ = stream.write_all(&container_backend::encode_confinement(confinement)?).await;
        let _ = stream.flush().await;
        let runtime = container.oci_runtime().to_owned();
        let context = ContainerContext {
            backend: "docker",
            runtime: Some(&runtime),
            image: image_id,
            network: self.network,
            network_isolation: (self.network == SandboxNetwork::Own)
                .then_some("own, loopback only"),
            limits_enforced_by: "engine's cgroup",
        };
        let describe = |measured: &Measurements<'_>| measured_isolation(measured, shape, &context);
        Ok(Guest::connect(stream, Box::new(container), shape.clone(), READY_TIMEOUT, describe)
            .await?)
    }

    /// Fills the guest volume on the engine, unless this was done before.
    async fn ensure_guest_volume(&self) -> Result<(), LaunchError> {
        let mut is_filled = self.is_filled.lock().await;
        if !*is_filled {
            let image =
                images::select_image(&PROBE_SHAPE, &self.config.images, &self.config.allowlist)?;
            let image_id = images::resolve_image_id(&self.client, image).await?;
            self.volume.fill(&self.client, &self.settings(&image_id)).await?;
            *is_filled = true;
        }
        Ok(())
    }

    fn settings<'a>(&'a self, image_id: &'a str) -> ContainerSettings<'a> {
        ContainerSettings {
            image_id,
            volume: &self.volume.name,
            runtime: self.config.runtime.as_deref(),
            owner: &self.config.owner,
            network: self.network,
            lease_until: container_backend::unix_time_seconds()
                + lease_duration(self.config.lifetime).as_secs(),
        }
    }
}

/// The time after which any worker may remove a container that is used for at most `lifetime`.
fn lease_duration(lifetime: Duration) -> Duration {
    lifetime + LEASE_SLACK
}

#[async_trait]
impl Launcher for DockerLauncher {
    async fn launch(&self, shape: &Shape) -> Result<Guest, LaunchError> {
        launch_checked(self.start_container(shape), &self.config.require).await
    }

    async fn sweep(&self, owner: &Owner) -> Result<usize, LaunchError> {
        let all = self.client.list_owned().await?;
        let orphans = {
            let mut tracker = self.orphan_tracker.lock().unwrap_or_else(PoisonError::into_inner);
            tracker.find_orphans(&all, owner, Instant::now())
        };
        let mut removed = 0;
        for OrphanContainer { id, force } in &orphans {
            removed += usize::from(self.client.remove(id, *force).await?);
        }
        Ok(removed)
    }

    async fn probe(&self) -> Result<Isolation, LaunchError> {
        probe_isolation(self.start_container(&PROBE_SHAPE), &self.config.require).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_longer_than_the_lifetime_and_shorter_than_two_hours() {
        let lifetime = Duration::from_secs(1200);
        assert!(lease_duration(lifetime) > lifetime + READY_TIMEOUT);
        assert!(lease_duration(lifetime) < Duration::from_secs(2 * 3600));
    }
}
