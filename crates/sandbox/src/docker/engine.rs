//! The calls we make to an engine, and no others; `docs/docker.md` has the same list.
//!
//! Every call opens a connection of its own, so an engine that was restarted is simply there again.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use bollard::container::LogOutput;
use bollard::errors::Error;
use bollard::models::{
    ContainerCreateBody, ContainerInspectResponse, ContainerSummary, ImageInspect,
    VolumeCreateRequest,
};
use bollard::query_parameters::{
    AttachContainerOptionsBuilder, CreateContainerOptionsBuilder, ListContainersOptionsBuilder,
    RemoveContainerOptionsBuilder,
};
use bollard::{API_DEFAULT_VERSION, Docker};
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use tokio::io::{AsyncWrite, Join};
use tokio_util::io::StreamReader;

use super::doctor::Facts;
use crate::contained::OWNER_LABEL;
use crate::launcher::LaunchError;

/// No call takes longer on an engine that works; a machine under load may need most of it.
const TIMEOUT: Duration = Duration::from_secs(60);

type Output = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;
type Input = Pin<Box<dyn AsyncWrite + Send>>;

/// The standard streams of a container.
pub type Attached = Join<StreamReader<Output, Bytes>, Input>;

/// A Docker engine, or a proxy in front of one.
#[derive(Clone)]
pub struct Engine {
    docker: Docker,
}

impl Engine {
    /// Connects to `unix://…` or `tcp://…` and agrees on a version of the API.
    pub async fn connect(host: &str) -> Result<Engine, LaunchError> {
        let seconds = TIMEOUT.as_secs();
        let docker = match host.split_once("://") {
            Some(("unix", _)) => Docker::connect_with_unix(host, seconds, API_DEFAULT_VERSION),
            Some(("tcp" | "http", _)) => {
                Docker::connect_with_http(host, seconds, API_DEFAULT_VERSION)
            }
            _ => {
                let source =
                    io::Error::new(io::ErrorKind::InvalidInput, "expected unix://… or tcp://…");
                return Err(LaunchError::Setup {
                    step: format!("Docker engine at {host:?}"),
                    source,
                });
            }
        };
        let step = format!("reach the Docker engine at {host}");
        let docker = docker.map_err(failed(&step))?;
        Ok(Engine { docker: docker.negotiate_version().await.map_err(failed(&step))? })
    }

    /// What the engine says about itself.
    pub async fn facts(&self) -> Result<Facts, LaunchError> {
        let version =
            self.docker.version().await.map_err(failed("ask the engine for its version"))?;
        let info = self.docker.info().await.map_err(failed("ask the engine about itself"))?;
        let runtimes = info.runtimes.unwrap_or_default().into_iter();
        let parts = version.components.unwrap_or_default().into_iter();
        let mut versions: BTreeMap<String, String> =
            parts.map(|part| (part.name.to_lowercase(), part.version)).collect();
        if let Some(version) = version.version {
            versions.insert("engine".to_owned(), version);
        }
        let security = info.security_options.unwrap_or_default();
        Ok(Facts {
            versions,
            default_runtime: info.default_runtime,
            runtimes: runtimes.map(|(name, runtime)| (name, runtime.path)).collect(),
            security,
        })
    }

    /// An image, if the engine has it.
    pub async fn image(&self, name: &str) -> Result<Option<ImageInspect>, LaunchError> {
        found(self.docker.inspect_image(name).await, "inspect image")
    }

    /// Makes a volume; one that is there already stays as it is.
    pub async fn make_volume(&self, name: &str) -> Result<(), LaunchError> {
        let request =
            VolumeCreateRequest { name: Some(name.to_owned()), ..VolumeCreateRequest::default() };
        self.docker.create_volume(request).await.map(drop).map_err(failed("create volume"))
    }

    pub async fn create(&self, name: &str, body: ContainerCreateBody) -> Result<(), LaunchError> {
        let options = CreateContainerOptionsBuilder::default().name(name).build();
        let created = self
            .docker
            .create_container(Some(options), body)
            .await
            .map_err(failed("create container"))?;
        for warning in created.warnings {
            tracing::debug!(%warning, "the engine warns about a container");
        }
        Ok(())
    }

    /// Takes hold of the standard streams of a container that has not started, so that nothing is
    /// missed.
    pub async fn attach(&self, name: &str, output: bool) -> Result<Attached, LaunchError> {
        let options = AttachContainerOptionsBuilder::default()
            .stream(true)
            .stdin(true)
            .stdout(output)
            .build();
        let attached =
            self.docker.attach_container(name, Some(options)).await.map_err(failed("attach"))?;
        let output: Output = Box::pin(attached.output.map(|piece| match piece {
            Ok(LogOutput::StdOut { message }) => Ok(message),
            Ok(_) => Err(io::Error::other("the engine sent something else than standard output")),
            Err(error) => Err(io::Error::other(error)),
        }));
        Ok(tokio::io::join(StreamReader::new(output), attached.input))
    }

    pub async fn start(&self, name: &str) -> Result<(), LaunchError> {
        self.docker.start_container(name, None).await.map_err(failed("start container"))
    }

    pub async fn kill(&self, name: &str) -> Result<(), Error> {
        self.docker.kill_container(name, None).await
    }

    /// Waits until the container does not run, and hands back its exit code.
    pub async fn wait(&self, name: &str) -> Result<i64, Error> {
        let mut waiting = Box::pin(self.docker.wait_container(name, None));
        match waiting.next().await {
            Some(Ok(answer)) => Ok(answer.status_code),
            Some(Err(Error::DockerContainerWaitError { code, .. })) => Ok(code),
            Some(Err(error)) => Err(error),
            None => Err(Error::RequestTimeoutError),
        }
    }

    /// A container, if there is one of this name.
    pub async fn inspect(
        &self,
        name: &str,
    ) -> Result<Option<ContainerInspectResponse>, LaunchError> {
        found(self.docker.inspect_container(name, None).await, "inspect container")
    }

    /// Removes a container with its anonymous volumes; one that is not there is no failure. One
    /// that runs is killed if `force` says so, and else stays, which is the answer `false`.
    pub async fn remove(&self, name: &str, force: bool) -> Result<bool, LaunchError> {
        let options = RemoveContainerOptionsBuilder::default().force(force).v(true).build();
        match self.docker.remove_container(name, Some(options)).await {
            Err(Error::DockerResponseServerError { status_code: 409, .. }) if !force => Ok(false),
            removed => found(removed, "remove container").map(|_| true),
        }
    }

    /// All containers with an owner of ours, running or not.
    pub async fn owned(&self) -> Result<Vec<ContainerSummary>, LaunchError> {
        let filters = [("label".to_owned(), vec![OWNER_LABEL.to_owned()])].into();
        let options = ListContainersOptionsBuilder::default().all(true).filters(&filters).build();
        self.docker.list_containers(Some(options)).await.map_err(failed("list containers"))
    }
}

fn failed(step: &str) -> impl Fn(Error) -> LaunchError {
    move |error| LaunchError::Setup { step: step.to_owned(), source: io::Error::other(error) }
}

/// What an engine does not have is an answer, not a failure.
fn found<T>(result: Result<T, Error>, step: &str) -> Result<Option<T>, LaunchError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Error::DockerResponseServerError { status_code: 404, .. }) => Ok(None),
        Err(error) => Err(failed(step)(error)),
    }
}
