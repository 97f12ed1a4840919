//! What a script runs on: the native sandbox, Docker where that does not work, or nothing at all.

use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use sandbox::{
    Control, DockerConfig, DockerLauncher, HostNetworkPermit, LaunchError, Launcher, NativeConfig,
    NativeLauncher, Owner, UnconfinedPermit,
};
use server::config::Local as Surroundings;

use super::Kind;

/// What a first sandbox may take; a kernel in trouble never finishes one.
const PROBE_LIMIT: Duration = Duration::from_secs(60);

pub enum Ground {
    Sandbox(Kind, Box<dyn Launcher>),
    Unconfined(UnconfinedPermit),
}

impl Ground {
    pub fn name(&self) -> &'static str {
        match self {
            Ground::Sandbox(Kind::Native, _) => "native",
            Ground::Sandbox(Kind::Docker, _) => "docker",
            Ground::Unconfined(_) => "none",
        }
    }
}

/// What a sandbox is to have beside its shape.
pub struct Wishes {
    /// Nobody who does not hold this opens the network.
    pub network: Option<HostNetworkPermit>,
    pub require: Vec<Control>,
}

/// A sandbox of this kind, or of whichever works.
pub async fn sandbox(
    kind: Option<Kind>,
    surroundings: &Surroundings,
    wishes: &Wishes,
) -> Result<Ground> {
    let native = match kind {
        Some(Kind::Docker) => None,
        Some(Kind::Native) | None => match native(surroundings, wishes).await {
            Ok(launcher) => return Ok(Ground::Sandbox(Kind::Native, launcher)),
            // What is required and missing here is not to be had by looking elsewhere.
            Err(error @ LaunchError::Missing(_)) => return Err(error.into()),
            Err(error) => Some(sandbox::native_advice(&error)),
        },
    };
    let docker = match (kind, &native) {
        (Some(Kind::Native), Some(problem)) => {
            return Err(anyhow!("{problem} `skillbox doctor` says more."));
        }
        _ => docker(surroundings, wishes).await,
    };
    let host = &surroundings.docker.host;
    match (docker, native) {
        (Ok(launcher), _) => Ok(Ground::Sandbox(Kind::Docker, launcher)),
        (Err(error), None) => Err(error).with_context(|| {
            format!("no Docker engine can be used at {host} (SKILLBOX_DOCKER_HOST)")
        }),
        (Err(error), Some(problem)) => Err(anyhow!(
            "there is no sandbox on this machine, so nothing was run. Native: {problem} Docker, at {host} \
             (SKILLBOX_DOCKER_HOST): {error}. `skillbox doctor` says more"
        )),
    }
}

async fn native(
    surroundings: &Surroundings,
    wishes: &Wishes,
) -> Result<Box<dyn Launcher>, LaunchError> {
    let config = NativeConfig {
        owner: owner(),
        processes: 1,
        require: wishes.require.clone(),
        search_path: surroundings.runtime_path.clone(),
    };
    let launcher = match wishes.network {
        Some(network) => NativeLauncher::start_on_host_network(config, network)?,
        None => NativeLauncher::start(config)?,
    };
    match tokio::time::timeout(PROBE_LIMIT, launcher.probe()).await {
        Ok(probed) => probed.map(|_| Box::new(launcher) as Box<dyn Launcher>),
        Err(_) => {
            // Waiting for its end could take for ever too.
            std::mem::forget(launcher);
            let source = std::io::ErrorKind::TimedOut.into();
            Err(LaunchError::Setup { step: "make a first sandbox".to_owned(), source })
        }
    }
}

async fn docker(
    surroundings: &Surroundings,
    wishes: &Wishes,
) -> Result<Box<dyn Launcher>, LaunchError> {
    let docker = surroundings.docker.clone();
    let config = DockerConfig {
        owner: owner(),
        host: docker.host,
        runtime: docker.runtime,
        // A person may let a run take as long as they like.
        lifetime: Duration::from_secs(24 * 3600),
        images: docker.images,
        allowlist: surroundings.image_allowlist.clone(),
        require: wishes.require.clone(),
    };
    Ok(Box::new(match wishes.network {
        Some(network) => DockerLauncher::start_on_host_network(config, network).await?,
        None => DockerLauncher::start(config).await?,
    }))
}

/// Nobody else is called so: what this process leaves on an engine can be told from what lives.
fn owner() -> Owner {
    Owner(format!("local-{}", uuid::Uuid::now_v7().simple()))
}
