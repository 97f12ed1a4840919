//! One container from its creation to its removal. It is removed whatever happens: asked to, or
//! dropped.

use std::time::Duration;

use async_trait::async_trait;
use bollard::models::ContainerCreateBody;
use guest::jail::Counters;
use tokio::runtime;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::check;
use super::engine::{Attached, Engine};
use crate::guest::GuestHandle;
use crate::launcher::LaunchError;

/// How long whoever waits for the end of a container waits at most. An engine that is restarting is
/// not the run's delay: the removal goes on behind it, and a sweep comes after that.
const WAITED_FOR: Duration = Duration::from_secs(10);

/// How long a killed container may take to stop.
const DYING: Duration = Duration::from_secs(10);

/// Attempts to remove a container, one a second: about as long as an engine takes to be restarted.
const REMOVALS: u32 = 60;

pub struct Container {
    engine: Engine,
    name: String,
    /// Where the end is worked on when this is dropped outside of any task.
    runtime: runtime::Handle,
    ending: Ending,
    /// The OCI runtime, as the engine names it.
    runtime_name: String,
}

enum Ending {
    NotBegun,
    Begun(JoinHandle<Counters>),
    /// It was waited for, and this is what the engine said.
    Over(Counters),
}

impl Container {
    /// Asks for a container, and refuses one that the engine made weaker than it was asked for.
    pub async fn create(
        engine: &Engine,
        name: String,
        body: &ContainerCreateBody,
    ) -> Result<Container, LaunchError> {
        // It may exist from here on: that the answer to a creation was lost does not mean that
        // nothing was created. Then the drop removes it, and nobody waits for an engine that is
        // away.
        let mut container = Container {
            engine: engine.clone(),
            name,
            runtime: runtime::Handle::current(),
            ending: Ending::NotBegun,
            runtime_name: String::new(),
        };
        engine.create(&container.name, body.clone()).await?;
        let found = engine.inspect(&container.name).await?.unwrap_or_default();
        let weakened = check::weakened(body, &found);
        if !weakened.is_empty() {
            container.wait_until_removed().await;
            return Err(LaunchError::Weakened(weakened));
        }
        container.runtime_name =
            found.host_config.and_then(|host| host.runtime).unwrap_or_default();
        Ok(container)
    }

    /// Takes hold of its streams and starts it.
    pub async fn start(&mut self, output: bool) -> Result<Attached, LaunchError> {
        let started = async {
            let attached = self.engine.attach(&self.name, output).await?;
            self.engine.start(&self.name).await?;
            Ok(attached)
        };
        let started = started.await;
        if started.is_err() {
            self.wait_until_removed().await;
        }
        started
    }

    /// The OCI runtime that runs it.
    pub fn runtime_name(&self) -> &str {
        &self.runtime_name
    }

    /// Waits until it ended by itself.
    pub async fn exit_code(&self) -> Result<i64, LaunchError> {
        let failed = |error| LaunchError::Setup {
            step: "wait".to_owned(),
            source: std::io::Error::other(error),
        };
        self.engine.wait(&self.name).await.map_err(failed)
    }
}

#[async_trait]
impl GuestHandle for Container {
    fn kill(&mut self) {
        if matches!(self.ending, Ending::NotBegun) {
            self.ending =
                Ending::Begun(self.runtime.spawn(end(self.engine.clone(), self.name.clone())));
        }
    }

    async fn wait_until_removed(&mut self) -> Counters {
        self.kill();
        if let Ending::Begun(task) = &mut self.ending {
            let ended = timeout(WAITED_FOR, task).await;
            if ended.is_err() {
                tracing::warn!(container = %self.name, "a container is still being removed; not waiting any longer");
            }
            // A task that panicked, or that a runtime at its end gave up, counted nothing.
            self.ending =
                Ending::Over(ended.unwrap_or(Ok(Counters::default())).unwrap_or_default());
        }
        match self.ending {
            Ending::Over(counters) => counters,
            _ => Counters::default(),
        }
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Kills, looks at how it ended, removes.
async fn end(engine: Engine, name: String) -> Counters {
    // An error means that it does not run, or that there is no engine; the removal finds out which.
    if engine.kill(&name).await.is_ok() {
        let _ = timeout(DYING, engine.wait(&name)).await;
    }
    let state = engine.inspect(&name).await.ok().flatten().and_then(|found| found.state);
    let out_of_memory = state.and_then(|state| state.oom_killed).unwrap_or(false);
    for attempt in 0..REMOVALS {
        match engine.remove(&name, true).await {
            Ok(_) => break,
            Err(error) if attempt + 1 == REMOVALS => {
                tracing::error!(%error, container = %name, "a container could not be removed; a sweep will try again");
            }
            Err(_) => sleep(Duration::from_secs(1)).await,
        }
    }
    Counters { oom_kills: u64::from(out_of_memory), ..Counters::default() }
}
