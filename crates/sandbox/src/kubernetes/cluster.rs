//! The calls we make to a cluster's API server to run skills, and no others;
//! `docs/kubernetes-sandbox.md` has the same list.

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

/// No call takes longer on an API server that works.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A connection is made by then.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// What may lie between us and the stream on either side: a frame and a bit.
const BUFFER: usize = 256 * 1024;

/// An API server, seen from one namespace.
#[derive(Clone)]
pub struct Cluster {
    pub client: Client,
    pub address: String,
    pub namespace: String,
    pub pods: Api<Pod>,
}

/// Why a pod was not made.
#[derive(Debug)]
pub enum Refusal {
    /// The quota of the namespace is used up, or was changed in the same moment.
    NoRoom(String),
    /// There is one of this name; as names are never used twice, it is the one that was asked for.
    Made,
    /// The API server said no.
    Refused(LaunchError),
    /// It said nothing; perhaps the pod was made.
    Failed(LaunchError),
}

impl Cluster {
    /// Reads how to reach the API server: from this file, else as `kubectl` does, else as a pod of
    /// the cluster does.
    pub async fn connect(
        kubeconfig: Option<&Path>,
        namespace: &str,
    ) -> Result<Cluster, LaunchError> {
        let mut config = match kubeconfig {
            Some(path) => from_file(path.to_owned()).await?,
            None => kube::Config::infer()
                .await
                .map_err(|error| setup("find out how to reach Kubernetes", error))?,
        };
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        let address = config.cluster_url.to_string();
        let step = format!("reach Kubernetes at {address}");
        let client = Client::try_from(config).map_err(|error| setup(&step, error))?;
        let pods = Api::namespaced(client.clone(), namespace);
        let cluster = Cluster { client, address, namespace: namespace.to_owned(), pods };
        cluster.version().await.map_err(|error| setup(&step, error))?;
        Ok(cluster)
    }

    /// What the API server says of its version.
    pub async fn version(&self) -> Result<String, LaunchError> {
        let version = within("ask for the version", self.client.apiserver_version()).await?;
        Ok(version.git_version)
    }

    pub async fn create(&self, pod: &Pod) -> Result<Pod, Refusal> {
        let parameters = PostParams::default();
        match timeout(TIMEOUT, self.pods.create(&parameters, pod)).await {
            Ok(Ok(pod)) => Ok(pod),
            Ok(Err(Error::Api(status))) => Err(refusal(&status)),
            Ok(Err(error)) => Err(Refusal::Failed(setup("create a pod", error))),
            Err(_) => Err(Refusal::Failed(too_slow("create a pod"))),
        }
    }

    /// A pod, if there is one of this name.
    pub async fn get(&self, name: &str) -> Result<Option<Pod>, LaunchError> {
        within("get a pod", self.pods.get_opt(name)).await
    }

    /// Takes hold of the standard streams of a container that runs.
    pub async fn attach(&self, name: &str) -> Result<AttachedProcess, LaunchError> {
        let streams = AttachParams::default()
            .container(SKILL)
            .stdin(true)
            .stdout(true)
            .stderr(false)
            .max_stdin_buf_size(BUFFER)
            .max_stdout_buf_size(BUFFER);
        within("attach to a pod", self.pods.attach(name, &streams)).await
    }

    /// Ends a pod at once and removes it. False when it was not there.
    pub async fn delete(&self, name: &str) -> Result<bool, LaunchError> {
        let at_once = DeleteParams::default().grace_period(0);
        let deleting = async {
            match self.pods.delete(name, &at_once).await {
                Ok(_) => Ok(true),
                Err(Error::Api(status)) if status.code == 404 => Ok(false),
                Err(error) => Err(error),
            }
        };
        within("delete a pod", deleting).await
    }

    /// All pods of ours in the namespace, whoever owns them.
    pub async fn owned(&self) -> Result<Vec<Pod>, LaunchError> {
        let ours = ListParams::default().labels(&format!("{}={}", MANAGED_BY.0, MANAGED_BY.1));
        Ok(within("list pods", self.pods.list(&ours)).await?.items)
    }
}

async fn from_file(path: PathBuf) -> Result<kube::Config, LaunchError> {
    let step = format!("read {}", path.display());
    let kubeconfig = Kubeconfig::read_from(path).map_err(|error| setup(&step, error))?;
    let options = KubeConfigOptions::default();
    kube::Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .map_err(|error| setup(&step, error))
}

async fn within<T>(
    step: &str,
    call: impl Future<Output = Result<T, Error>>,
) -> Result<T, LaunchError> {
    match timeout(TIMEOUT, call).await {
        Ok(answer) => answer.map_err(|error| setup(step, told(error))),
        Err(_) => Err(too_slow(step)),
    }
}

/// The API server's own sentence, rather than the whole answer around it.
fn told(error: Error) -> Box<dyn std::error::Error + Send + Sync> {
    match error {
        Error::Api(status) if !status.message.is_empty() => status.message.into(),
        error => error.into(),
    }
}

pub fn setup(
    step: &str,
    error: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> LaunchError {
    LaunchError::Setup { step: step.to_owned(), source: io::Error::other(error) }
}

fn too_slow(step: &str) -> LaunchError {
    setup(step, format!("no answer within {} s", TIMEOUT.as_secs()))
}

fn refusal(status: &Status) -> Refusal {
    match (status.code, status.reason.as_str()) {
        (403, _) if status.message.contains("exceeded quota") => {
            Refusal::NoRoom(status.message.clone())
        }
        (409, "AlreadyExists") => Refusal::Made,
        // Two pods at once, for one quota.
        (409, _) => Refusal::NoRoom(status.message.clone()),
        (500.., _) => Refusal::Failed(setup("create a pod", status.message.clone())),
        _ => Refusal::Refused(setup("create a pod", status.message.clone())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_whether_waiting_helps() {
        let refused = |code: u16, reason: &str, message: &str| {
            let (reason, message) = (reason.to_owned(), message.to_owned());
            refusal(&Status { code, reason, message, ..Status::default() })
        };
        let quota = "pods \"x\" is forbidden: exceeded quota: small, requested: pods=1, used: pods=2, limited: pods=2";
        assert!(matches!(refused(403, "Forbidden", quota), Refusal::NoRoom(said) if said == quota));
        assert!(matches!(
            refused(409, "Conflict", "Operation cannot be fulfilled on resourcequotas"),
            Refusal::NoRoom(_)
        ));
        assert!(matches!(refused(409, "AlreadyExists", ""), Refusal::Made));
        let security = "pods \"x\" is forbidden: violates PodSecurity \"restricted:latest\"";
        let Refusal::Refused(error) = refused(403, "Forbidden", security) else {
            panic!("it is final")
        };
        assert!(error.to_string().contains(security), "{error}");
        assert!(matches!(refused(500, "InternalError", "etcd"), Refusal::Failed(_)));
    }
}
