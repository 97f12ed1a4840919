//! The Docker sandbox: one hardened container a run, on an engine that may be anywhere, with the
//! same guest inside.
//!
//! It asks an engine for containers and nothing else: no copying, no executing, no binding of host
//! paths. All that is said to a container goes through its standard streams, and is the same
//! conversation as everywhere.

mod body;
mod check;
mod container;
pub mod doctor;
mod engine;
mod gvisor;
pub mod images;
mod runtime;
mod sweep;
mod volume;

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use guest::jail::SandboxNetwork;
use guest::protocol::Measurements;
use tokio::io::AsyncWriteExt;
use tokio::sync::Mutex as AsyncMutex;
use uuid::Uuid;

use crate::contained::{self, Around, PROBE};
use crate::guest::Guest;
use crate::isolation::{Control, Isolation};
use crate::launcher::{LaunchError, Launcher, Owner, Shape};
use crate::network::HostNetworkPermit;
use crate::seccomp;
use body::Setting;
pub use body::{FILL_BYTES, FILLER};
use container::Container;
use engine::{Attached, Engine};
pub use images::Images;
use sweep::{Abandoned, Seen};
use volume::Volume;

/// How long a guest may take to say that it is ready, on a machine under load and under gVisor.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// What is added to the life of a container before anybody may remove it: the time to start it, and
/// the difference of the clocks of those who make containers and those who sweep.
const LEASE_SLACK: Duration = Duration::from_secs(3600);

/// The settings of the Docker launcher.
#[derive(Debug, Clone)]
pub struct DockerConfig {
    pub owner: Owner,
    /// `unix://…` or `tcp://…`.
    pub host: String,
    /// An OCI runtime by the name the engine knows it by, such as `runsc`; the engine's default
    /// when `None`.
    pub runtime: Option<String>,
    /// No container is wanted longer than this once it runs.
    pub lifetime: Duration,
    pub images: Images,
    /// The only images that are ever used, those of the runtimes included.
    pub allowlist: Vec<String>,
    /// Controls without which nothing runs.
    pub require: Vec<Control>,
}

/// Makes sandboxes on a Docker engine.
pub struct DockerLauncher {
    config: DockerConfig,
    network: SandboxNetwork,
    engine: Engine,
    volume: Volume,
    /// Whether the engine has the guest; held while it is brought there, so that it is brought
    /// once.
    filled: AsyncMutex<bool>,
    seen: Mutex<Seen>,
    #[cfg(feature = "weakened")]
    without: Option<crate::weakened::Defence>,
}

impl DockerLauncher {
    /// Connects to the engine.
    pub async fn start(config: DockerConfig) -> Result<DockerLauncher, LaunchError> {
        let engine = Engine::connect(&config.host).await?;
        let volume = Volume::of_this_program(&config.host);
        let (filled, seen) = (AsyncMutex::new(false), Mutex::default());
        Ok(DockerLauncher {
            config,
            network: SandboxNetwork::Own,
            engine,
            volume,
            filled,
            seen,
            #[cfg(feature = "weakened")]
            without: None,
        })
    }

    /// For tests that show an attack to succeed without this defence.
    #[cfg(feature = "weakened")]
    pub async fn start_without(
        config: DockerConfig,
        defence: crate::weakened::Defence,
    ) -> Result<DockerLauncher, LaunchError> {
        Ok(DockerLauncher { without: Some(defence), ..DockerLauncher::start(config).await? })
    }

    /// The same, of containers that see the whole network of the engine's machine.
    pub async fn start_on_host_network(
        config: DockerConfig,
        _: HostNetworkPermit,
    ) -> Result<DockerLauncher, LaunchError> {
        Ok(DockerLauncher { network: SandboxNetwork::Host, ..DockerLauncher::start(config).await? })
    }

    async fn start_guest(&self, shape: &Shape) -> Result<Guest, LaunchError> {
        let image = images::choose(shape, &self.config.images, &self.config.allowlist)?;
        let image_id = images::resolve(&self.engine, image).await?;
        self.bring_guest().await?;
        let body = body::sandbox(shape, &self.setting(&image_id));
        let name = format!("skillbox-run-{}", Uuid::new_v4().simple());
        let mut container = Container::create(&self.engine, name, &body).await?;
        let stream = match container.start(true).await {
            Ok(stream) => stream,
            Err(error) => {
                // Perhaps somebody removed the volume. The next launch looks.
                *self.filled.lock().await = false;
                return Err(error);
            }
        };
        self.greet(container, stream, shape, &image_id).await
    }

    /// Tells the guest how to confine itself, and waits until it has.
    async fn greet(
        &self,
        container: Container,
        mut stream: Attached,
        shape: &Shape,
        image_id: &str,
    ) -> Result<Guest, LaunchError> {
        // When this fails the guest is gone, which is noticed in the next step.
        let confine = contained::confinement(shape, seccomp::program(self.network));
        #[cfg(feature = "weakened")]
        let confine = crate::weakened::confine(confine, self.without);
        let _ = stream.write_all(&contained::encode(confine)?).await;
        let _ = stream.flush().await;
        let runtime = container.runtime_name().to_owned();
        let around = Around {
            backend: "docker",
            runtime: Some(&runtime),
            image: image_id,
            network: self.network,
            closed: (self.network == SandboxNetwork::Own).then_some("own, loopback only"),
            keeper: "engine's cgroup",
        };
        let describe = |measured: &Measurements<'_>| contained::isolation(measured, shape, &around);
        Ok(Guest::connect(stream, Box::new(container), shape.clone(), READY_WITHIN, describe)
            .await?)
    }

    /// Brings the guest to the engine, unless this was done.
    async fn bring_guest(&self) -> Result<(), LaunchError> {
        let mut filled = self.filled.lock().await;
        if !*filled {
            let image = images::choose(&PROBE, &self.config.images, &self.config.allowlist)?;
            let image_id = images::resolve(&self.engine, image).await?;
            self.volume.fill(&self.engine, &self.setting(&image_id)).await?;
            *filled = true;
        }
        Ok(())
    }

    fn setting<'a>(&'a self, image_id: &'a str) -> Setting<'a> {
        Setting {
            image_id,
            volume: &self.volume.name,
            runtime: self.config.runtime.as_deref(),
            owner: &self.config.owner,
            network: self.network,
            lease_until: sweep::seconds_since_1970() + lease(self.config.lifetime).as_secs(),
        }
    }
}

/// After how long anybody may remove a container that is wanted for `lifetime` at most.
fn lease(lifetime: Duration) -> Duration {
    lifetime + LEASE_SLACK
}

#[async_trait]
impl Launcher for DockerLauncher {
    async fn launch(&self, shape: &Shape) -> Result<Guest, LaunchError> {
        self.start_guest(shape).await?.holding(&self.config.require).await
    }

    async fn sweep(&self, owner: &Owner) -> Result<usize, LaunchError> {
        let all = self.engine.owned().await?;
        let abandoned = {
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.abandoned(&all, owner, Instant::now())
        };
        let mut removed = 0;
        for Abandoned { id, force } in &abandoned {
            removed += usize::from(self.engine.remove(id, *force).await?);
        }
        Ok(removed)
    }

    async fn probe(&self) -> Result<Isolation, LaunchError> {
        let guest = self.start_guest(&PROBE).await?.holding(&self.config.require).await?;
        let isolation = guest.isolation().clone();
        guest.discard().await;
        Ok(isolation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_outlasts_what_it_is_for_and_is_no_day() {
        let lifetime = Duration::from_secs(1200);
        assert!(lease(lifetime) > lifetime + READY_WITHIN);
        assert!(lease(lifetime) < Duration::from_secs(2 * 3600));
    }
}
