//! One container from its creation to its removal. It is always removed: on request, or when
//! dropped.

use std::time::Duration;

use async_trait::async_trait;
use bollard::models::ContainerCreateBody;
use guest::jail::Counters;
use tokio::runtime;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::check;
use super::client::{ContainerStream, DockerClient};
use crate::guest::GuestHandle;
use crate::launcher::LaunchError;

/// How long a caller waits for the removal of a container. An engine that restarts must not delay
/// the run's result: the removal goes on in the background, and a sweep is the last resort.
const REMOVAL_WAIT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a killed container may take to stop.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

/// Attempts to remove a container, and the delay between them: together about as long as an engine
/// takes to restart.
const MAX_REMOVE_ATTEMPTS: u32 = 60;
const REMOVE_RETRY_DELAY: Duration = Duration::from_secs(1);

pub(super) struct DockerContainer {
    client: DockerClient,
    name: String,
    /// Runs the removal when this is dropped outside of any task.
    runtime: runtime::Handle,
    removal: ContainerRemoval,
    /// The OCI runtime by the engine's name for it.
    oci_runtime: String,
}

enum ContainerRemoval {
    NotStarted,
    Running(JoinHandle<Counters>),
    /// With the counters that the engine reported.
    Done(Counters),
}

impl DockerContainer {
    /// Creates a container, and rejects one that the engine made weaker than requested.
    pub(super) async fn create(
        client: &DockerClient,
        name: String,
        body: &ContainerCreateBody,
    ) -> Result<DockerContainer, LaunchError> {
        // The value exists before the request: the container may have been created even if the
        // response is lost. Then dropping this value removes it, and the caller does not wait for
        // an engine that is away.
        let mut container = DockerContainer {
            client: client.clone(),
            name,
            runtime: runtime::Handle::current(),
            removal: ContainerRemoval::NotStarted,
            oci_runtime: String::new(),
        };
        client.create(&container.name, body.clone()).await?;
        let created = client.inspect(&container.name).await?.unwrap_or_default();
        let weakened = check::find_weakened(body, &created);
        if !weakened.is_empty() {
            container.wait_until_removed().await;
            return Err(LaunchError::Weakened(weakened));
        }
        container.oci_runtime =
            created.host_config.and_then(|host| host.runtime).unwrap_or_default();
        Ok(container)
    }

    /// Attaches to its streams and starts it.
    pub(super) async fn start(&mut self, output: bool) -> Result<ContainerStream, LaunchError> {
        let started = async {
            // Attached before the start, so that no output is lost.
            let stream = self.client.attach(&self.name, output).await?;
            self.client.start(&self.name).await?;
            Ok(stream)
        };
        let started = started.await;
        if started.is_err() {
            self.wait_until_removed().await;
        }
        started
    }

    pub(super) fn oci_runtime(&self) -> &str {
        &self.oci_runtime
    }

    /// Waits until it has exited by itself.
    pub(super) async fn exit_code(&self) -> Result<i64, LaunchError> {
        let failed = |error| LaunchError::Setup {
            step: "wait".to_owned(),
            source: std::io::Error::other(error),
        };
        self.client.wait(&self.name).await.map_err(failed)
    }
}

#[async_trait]
impl GuestHandle for DockerContainer {
    fn kill(&mut self) {
        if matches!(self.removal, ContainerRemoval::NotStarted) {
            let task = kill_and_remove(self.client.clone(), self.name.clone());
            self.removal = ContainerRemoval::Running(self.runtime.spawn(task));
        }
    }

    async fn wait_until_removed(&mut self) -> Counters {
        self.kill();
        if let ContainerRemoval::Running(task) = &mut self.removal {
            let result = timeout(REMOVAL_WAIT_TIMEOUT, task).await;
            if result.is_err() {
                tracing::warn!(container = %self.name, "a container is still being removed; not waiting any longer");
            }
            // A task that panicked, or was cancelled with its runtime, has no counters.
            let counters = result.unwrap_or(Ok(Counters::default())).unwrap_or_default();
            self.removal = ContainerRemoval::Done(counters);
        }
        match self.removal {
            ContainerRemoval::Done(counters) => counters,
            ContainerRemoval::NotStarted | ContainerRemoval::Running(_) => Counters::default(),
        }
    }
}

impl Drop for DockerContainer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Kills the container, reads how it ended, and removes it. The order matters: after the removal
/// the engine no longer knows whether the container ran out of memory.
async fn kill_and_remove(client: DockerClient, name: String) -> Counters {
    // A failed kill means that the container does not run, or that the engine is away. The removal
    // below handles both.
    if client.kill(&name).await.is_ok() {
        let _ = timeout(KILL_TIMEOUT, client.wait(&name)).await;
    }
    let state = client.inspect(&name).await.ok().flatten().and_then(|found| found.state);
    let out_of_memory = state.and_then(|state| state.oom_killed).unwrap_or(false);
    for attempt in 0..MAX_REMOVE_ATTEMPTS {
        match client.remove(&name, true).await {
            Ok(_) => break,
            Err(error) if attempt + 1 == MAX_REMOVE_ATTEMPTS => {
                tracing::error!(%error, container = %name, "a container could not be removed; a sweep will try again");
            }
            Err(_) => sleep(REMOVE_RETRY_DELAY).await,
        }
    }
    Counters { oom_kills: u64::from(out_of_memory), ..Counters::default() }
}
