//! Chooses what a script runs on: the native sandbox, Docker where that does not work, or no
//! sandbox.

use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use sandbox::{
    Control, DockerConfig, DockerLauncher, HostNetworkPermit, LaunchError, Launcher, NativeConfig,
    NativeLauncher, Owner, UnconfinedPermit,
};
use server::config::StandaloneConfig;

use super::LocalSandbox;

/// Timeout of the first sandbox. A faulty kernel may never finish making one.
const PROBE_TIMEOUT: Duration = Duration::from_secs(60);

/// The longest lifetime of a container: a user may allow a run to take as long as it needs.
const MAX_CONTAINER_LIFETIME: Duration = Duration::from_secs(24 * 3600);

pub(super) enum Backend {
    Sandbox(LocalSandbox, Box<dyn Launcher>),
    Unconfined(UnconfinedPermit),
}

impl Backend {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Backend::Sandbox(LocalSandbox::Native, _) => "native",
            Backend::Sandbox(LocalSandbox::Docker, _) => "docker",
            Backend::Unconfined(_) => "none",
        }
    }
}

/// Properties of a sandbox that are not part of its shape.
pub(super) struct SandboxOptions {
    /// Proof that the user opened the network. Without it no launcher can open it.
    pub network: Option<HostNetworkPermit>,
    pub require: Vec<Control>,
}

/// Starts the given kind of sandbox; without one, the native sandbox or else Docker.
pub(super) async fn start(
    kind: Option<LocalSandbox>,
    config: &StandaloneConfig,
    options: &SandboxOptions,
) -> Result<Backend> {
    match kind {
        Some(LocalSandbox::Native) => {
            start_native(config, options).await.map_err(|error| match error {
                LaunchError::Missing(_) => error.into(),
                error => {
                    anyhow!("{} Run `skillbox doctor` for details.", sandbox::native_advice(&error))
                }
            })
        }
        Some(LocalSandbox::Docker) => start_docker(config, options)
            .await
            .with_context(|| format!("no Docker engine can be used at {}", engine(config))),
        None => start_any(config, options).await,
    }
}

async fn start_any(config: &StandaloneConfig, options: &SandboxOptions) -> Result<Backend> {
    let native_problem = match start_native(config, options).await {
        Ok(backend) => return Ok(backend),
        // A required control that is missing is an answer about this machine. Falling back to
        // Docker would hide it, and would run the skill with another set of controls.
        Err(error @ LaunchError::Missing(_)) => return Err(error.into()),
        Err(error) => sandbox::native_advice(&error),
    };
    start_docker(config, options).await.map_err(|error| {
        anyhow!(
            "no sandbox works on this machine, so nothing was run. Native: {native_problem} \
             Docker, at {}: {error}. Run `skillbox doctor` for details",
            engine(config)
        )
    })
}

/// The address of the engine and the variable that sets it, for error messages.
fn engine(config: &StandaloneConfig) -> String {
    format!("{} (SKILLBOX_DOCKER_HOST)", config.docker.host)
}

async fn start_native(
    config: &StandaloneConfig,
    options: &SandboxOptions,
) -> Result<Backend, LaunchError> {
    let native = NativeConfig {
        owner: unique_owner(),
        processes: 1,
        require: options.require.clone(),
        search_path: config.runtime_path.clone(),
    };
    let launcher = match options.network {
        Some(network) => NativeLauncher::start_on_host_network(native, network)?,
        None => NativeLauncher::start(native)?,
    };
    match tokio::time::timeout(PROBE_TIMEOUT, launcher.probe()).await {
        Ok(probed) => probed.map(|_| Backend::Sandbox(LocalSandbox::Native, Box::new(launcher))),
        Err(_) => {
            // Its destructor waits for the launcher process, which the same kernel problem could
            // block for ever.
            std::mem::forget(launcher);
            let source = std::io::ErrorKind::TimedOut.into();
            Err(LaunchError::Setup { step: "make a first sandbox".to_owned(), source })
        }
    }
}

async fn start_docker(
    config: &StandaloneConfig,
    options: &SandboxOptions,
) -> Result<Backend, LaunchError> {
    let docker = config.docker.clone();
    let docker = DockerConfig {
        owner: unique_owner(),
        host: docker.host,
        runtime: docker.runtime,
        lifetime: MAX_CONTAINER_LIFETIME,
        images: docker.images,
        allowlist: config.image_allowlist.clone(),
        require: options.require.clone(),
    };
    let launcher = match options.network {
        Some(network) => DockerLauncher::start_on_host_network(docker, network).await?,
        None => DockerLauncher::start(docker).await?,
    };
    Ok(Backend::Sandbox(LocalSandbox::Docker, Box::new(launcher)))
}

/// A name that no other process has, so that leftovers of this process on an engine can be told
/// from sandboxes that are in use.
fn unique_owner() -> Owner {
    Owner(format!("local-{}", uuid::Uuid::now_v7().simple()))
}
