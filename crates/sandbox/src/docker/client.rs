//! All requests that we send to an engine; `docs/docker.md` has the same list.
//!
//! Each request has its own connection, so a restarted engine needs no reconnect.

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

use super::doctor::EngineInfo;
use crate::container_backend::OWNER_LABEL;
use crate::launcher::LaunchError;

/// The timeout of every request. A loaded machine may need most of it.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

type ContainerOutput = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;
type ContainerInput = Pin<Box<dyn AsyncWrite + Send>>;

/// The standard streams of a container.
pub(super) type ContainerStream = Join<StreamReader<ContainerOutput, Bytes>, ContainerInput>;

/// Client of a Docker engine, or of a proxy in front of one.
#[derive(Clone)]
pub(crate) struct DockerClient {
    docker: Docker,
}

impl DockerClient {
    /// Connects to `unix://…` or `tcp://…` and agrees on a version of the API.
    pub(crate) async fn connect(host: &str) -> Result<DockerClient, LaunchError> {
        let seconds = REQUEST_TIMEOUT.as_secs();
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
        let docker = docker.map_err(setup_error(&step))?;
        Ok(DockerClient { docker: docker.negotiate_version().await.map_err(setup_error(&step))? })
    }

    /// The engine's own information.
    pub(crate) async fn info(&self) -> Result<EngineInfo, LaunchError> {
        let version =
            self.docker.version().await.map_err(setup_error("get the engine's version"))?;
        let info = self.docker.info().await.map_err(setup_error("get the engine's information"))?;
        let runtimes = info.runtimes.unwrap_or_default().into_iter();
        let components = version.components.unwrap_or_default().into_iter();
        let mut versions: BTreeMap<String, String> = components
            .map(|component| (component.name.to_lowercase(), component.version))
            .collect();
        if let Some(version) = version.version {
            versions.insert("engine".to_owned(), version);
        }
        let security = info.security_options.unwrap_or_default();
        Ok(EngineInfo {
            versions,
            default_runtime: info.default_runtime,
            runtimes: runtimes.map(|(name, runtime)| (name, runtime.path)).collect(),
            security,
        })
    }

    /// The image of this name, if the engine has it.
    pub(crate) async fn image(&self, name: &str) -> Result<Option<ImageInspect>, LaunchError> {
        optional(self.docker.inspect_image(name).await, "inspect image")
    }

    /// Creates a volume. An existing one stays unchanged.
    pub(crate) async fn create_volume(&self, name: &str) -> Result<(), LaunchError> {
        let request =
            VolumeCreateRequest { name: Some(name.to_owned()), ..VolumeCreateRequest::default() };
        self.docker.create_volume(request).await.map(drop).map_err(setup_error("create volume"))
    }

    pub(crate) async fn create(
        &self,
        name: &str,
        body: ContainerCreateBody,
    ) -> Result<(), LaunchError> {
        let options = CreateContainerOptionsBuilder::default().name(name).build();
        let created = self
            .docker
            .create_container(Some(options), body)
            .await
            .map_err(setup_error("create container"))?;
        for warning in created.warnings {
            tracing::debug!(%warning, "the engine returned a warning for a container");
        }
        Ok(())
    }

    /// Attaches to the standard streams of a container that has not started, so that no output is
    /// lost.
    pub(crate) async fn attach(
        &self,
        name: &str,
        output: bool,
    ) -> Result<ContainerStream, LaunchError> {
        let options = AttachContainerOptionsBuilder::default()
            .stream(true)
            .stdin(true)
            .stdout(output)
            .build();
        let attached = self
            .docker
            .attach_container(name, Some(options))
            .await
            .map_err(setup_error("attach"))?;
        let output: ContainerOutput = Box::pin(attached.output.map(|piece| match piece {
            Ok(LogOutput::StdOut { message }) => Ok(message),
            Ok(_) => Err(io::Error::other("the engine sent a stream other than standard output")),
            Err(error) => Err(io::Error::other(error)),
        }));
        Ok(tokio::io::join(StreamReader::new(output), attached.input))
    }

    pub(crate) async fn start(&self, name: &str) -> Result<(), LaunchError> {
        self.docker.start_container(name, None).await.map_err(setup_error("start container"))
    }

    pub(crate) async fn kill(&self, name: &str) -> Result<(), Error> {
        self.docker.kill_container(name, None).await
    }

    /// Waits until the container has stopped, and returns its exit code.
    pub(crate) async fn wait(&self, name: &str) -> Result<i64, Error> {
        let mut waiting = Box::pin(self.docker.wait_container(name, None));
        match waiting.next().await {
            Some(Ok(answer)) => Ok(answer.status_code),
            Some(Err(Error::DockerContainerWaitError { code, .. })) => Ok(code),
            Some(Err(error)) => Err(error),
            None => Err(Error::RequestTimeoutError),
        }
    }

    /// The container of this name, if it exists.
    pub(crate) async fn inspect(
        &self,
        name: &str,
    ) -> Result<Option<ContainerInspectResponse>, LaunchError> {
        optional(self.docker.inspect_container(name, None).await, "inspect container")
    }

    /// Removes a container with its anonymous volumes; a missing one is not an error. With `force`
    /// a running container is killed. Without it, it stays, and the result is `false`.
    pub(crate) async fn remove(&self, name: &str, force: bool) -> Result<bool, LaunchError> {
        let options = RemoveContainerOptionsBuilder::default().force(force).v(true).build();
        match self.docker.remove_container(name, Some(options)).await {
            Err(Error::DockerResponseServerError { status_code: 409, .. }) if !force => Ok(false),
            removed => optional(removed, "remove container").map(|_| true),
        }
    }

    /// All containers with an owner label, running or not.
    pub(crate) async fn list_owned(&self) -> Result<Vec<ContainerSummary>, LaunchError> {
        let filters = [("label".to_owned(), vec![OWNER_LABEL.to_owned()])].into();
        let options = ListContainersOptionsBuilder::default().all(true).filters(&filters).build();
        self.docker.list_containers(Some(options)).await.map_err(setup_error("list containers"))
    }
}

fn setup_error(step: &str) -> impl Fn(Error) -> LaunchError {
    move |error| LaunchError::Setup { step: step.to_owned(), source: io::Error::other(error) }
}

/// Turns "not found" into `None`.
fn optional<T>(result: Result<T, Error>, step: &str) -> Result<Option<T>, LaunchError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Error::DockerResponseServerError { status_code: 404, .. }) => Ok(None),
        Err(error) => Err(setup_error(step)(error)),
    }
}
