//! All requests that we send to a cluster's API server to run skills; `docs/kubernetes-sandbox.md`
//! has the same list.

use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, AttachParams, AttachedProcess, DeleteParams, ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::Status;
use kube::{Client, Error};
use tokio::time::timeout;

use super::body::{MANAGED_BY, SKILL};
use crate::launcher::LaunchError;

/// The timeout of every request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The buffer of each direction of an attach: a little more than a frame.
const STREAM_BUFFER_BYTES: usize = 256 * 1024;

/// Client of an API server, for one namespace.
#[derive(Clone)]
pub(super) struct ClusterClient {
    pub client: Client,
    pub address: String,
    pub namespace: String,
    pub pods: Api<Pod>,
}

/// Why a pod was not created.
#[derive(Debug)]
pub(super) enum PodCreateError {
    /// The quota of the namespace is used up, or was changed concurrently.
    QuotaExceeded(String),
    /// A pod of this name exists. Names are never reused, so an earlier attempt created it.
    AlreadyExists,
    /// The API server rejected the pod.
    Rejected(LaunchError),
    /// The API server did not respond; the pod may have been created.
    Unconfirmed(LaunchError),
}

impl ClusterClient {
    /// Connects with the configuration in this file, else with the one that `kubectl` finds, else
    /// with the one of a pod in the cluster.
    pub(super) async fn connect(
        kubeconfig: Option<&Path>,
        namespace: &str,
    ) -> Result<ClusterClient, LaunchError> {
        let mut config = match kubeconfig {
            Some(path) => config_from_file(path.to_owned()).await?,
            None => kube::Config::infer()
                .await
                .map_err(|error| setup_error("find the configuration for Kubernetes", error))?,
        };
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        let address = config.cluster_url.to_string();
        let step = format!("reach Kubernetes at {address}");
        let client = Client::try_from(config).map_err(|error| setup_error(&step, error))?;
        let pods = Api::namespaced(client.clone(), namespace);
        let client = ClusterClient { client, address, namespace: namespace.to_owned(), pods };
        client.version().await.map_err(|error| setup_error(&step, error))?;
        Ok(client)
    }

    /// The version of the API server.
    pub(super) async fn version(&self) -> Result<String, LaunchError> {
        let version = with_timeout("get the version", self.client.apiserver_version()).await?;
        Ok(version.git_version)
    }

    pub(super) async fn create(&self, pod: &Pod) -> Result<Pod, PodCreateError> {
        let parameters = PostParams::default();
        match timeout(REQUEST_TIMEOUT, self.pods.create(&parameters, pod)).await {
            Ok(Ok(pod)) => Ok(pod),
            Ok(Err(Error::Api(status))) => Err(create_error(&status)),
            Ok(Err(error)) => Err(PodCreateError::Unconfirmed(setup_error("create a pod", error))),
            Err(_) => Err(PodCreateError::Unconfirmed(timeout_error("create a pod"))),
        }
    }

    /// The pod of this name, if it exists.
    pub(super) async fn get(&self, name: &str) -> Result<Option<Pod>, LaunchError> {
        with_timeout("get a pod", self.pods.get_opt(name)).await
    }

    /// Attaches to the standard streams of a running container.
    pub(super) async fn attach(&self, name: &str) -> Result<AttachedProcess, LaunchError> {
        let streams = AttachParams::default()
            .container(SKILL)
            .stdin(true)
            .stdout(true)
            .stderr(false)
            .max_stdin_buf_size(STREAM_BUFFER_BYTES)
            .max_stdout_buf_size(STREAM_BUFFER_BYTES);
        with_timeout("attach to a pod", self.pods.attach(name, &streams)).await
    }

    /// Kills a pod without a grace period and deletes it. False when it did not exist.
    pub(super) async fn delete(&self, name: &str) -> Result<bool, LaunchError> {
        let no_grace_period = DeleteParams::default().grace_period(0);
        let delete = async {
            match self.pods.delete(name, &no_grace_period).await {
                Ok(_) => Ok(true),
                Err(Error::Api(status)) if status.code == 404 => Ok(false),
                Err(error) => Err(error),
            }
        };
        with_timeout("delete a pod", delete).await
    }

    /// All pods of Skillbox in the namespace, of all owners.
    pub(super) async fn list_owned(&self) -> Result<Vec<Pod>, LaunchError> {
        let ours = ListParams::default().labels(&format!("{}={}", MANAGED_BY.0, MANAGED_BY.1));
        Ok(with_timeout("list pods", self.pods.list(&ours)).await?.items)
    }
}

async fn config_from_file(path: PathBuf) -> Result<kube::Config, LaunchError> {
    let step = format!("read {}", path.display());
    let kubeconfig = Kubeconfig::read_from(path).map_err(|error| setup_error(&step, error))?;
    let options = KubeConfigOptions::default();
    kube::Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .map_err(|error| setup_error(&step, error))
}

async fn with_timeout<T>(
    step: &str,
    call: impl Future<Output = Result<T, Error>>,
) -> Result<T, LaunchError> {
    match timeout(REQUEST_TIMEOUT, call).await {
        Ok(result) => result.map_err(|error| setup_error(step, api_message(error))),
        Err(_) => Err(timeout_error(step)),
    }
}

/// The API server's own message, instead of the whole response.
fn api_message(error: Error) -> Box<dyn std::error::Error + Send + Sync> {
    match error {
        Error::Api(status) if !status.message.is_empty() => status.message.into(),
        error => error.into(),
    }
}

pub(super) fn setup_error(
    step: &str,
    error: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> LaunchError {
    LaunchError::Setup { step: step.to_owned(), source: io::Error::other(error) }
}

fn timeout_error(step: &str) -> LaunchError {
    setup_error(step, format!("no response within {} s", REQUEST_TIMEOUT.as_secs()))
}

fn create_error(status: &Status) -> PodCreateError {
    match (status.code, status.reason.as_str()) {
        (403, _) if status.message.contains("exceeded quota") => {
            PodCreateError::QuotaExceeded(status.message.clone())
        }
        (409, "AlreadyExists") => PodCreateError::AlreadyExists,
        // Two pods were created at once under one quota. A retry sees the current quota.
        (409, _) => PodCreateError::QuotaExceeded(status.message.clone()),
        (500.., _) => {
            PodCreateError::Unconfirmed(setup_error("create a pod", status.message.clone()))
        }
        _ => PodCreateError::Rejected(setup_error("create a pod", status.message.clone())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn create_errors_tell_whether_a_retry_helps() {
        let create_error_for = |code: u16, reason: &str, message: &str| {
            let (reason, message) = (reason.to_owned(), message.to_owned());
            create_error(&Status { code, reason, message, ..Status::default() })
        };
        let quota = "pods \"x\" is forbidden: exceeded quota: small, requested: pods=1, used: pods=2, limited: pods=2";
        assert!(
            matches!(create_error_for(403, "Forbidden", quota), PodCreateError::QuotaExceeded(message) if message == quota)
        );
        assert!(matches!(
            create_error_for(409, "Conflict", "Operation cannot be fulfilled on resourcequotas"),
            PodCreateError::QuotaExceeded(_)
        ));
        assert!(matches!(
            create_error_for(409, "AlreadyExists", ""),
            PodCreateError::AlreadyExists
        ));
        let security = "pods \"x\" is forbidden: violates PodSecurity \"restricted:latest\"";
        let PodCreateError::Rejected(error) = create_error_for(403, "Forbidden", security) else {
            panic!("not rejected")
        };
        assert!(error.to_string().contains(security), "{error}");
        assert!(matches!(
            create_error_for(500, "InternalError", "etcd"),
            PodCreateError::Unconfirmed(_)
        ));
    }
}
