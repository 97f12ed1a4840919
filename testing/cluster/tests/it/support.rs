//! A cluster with one image, and pods for it.

use std::path::{Path, PathBuf};

use cluster::{ClusterImage, ClusterSettings, RbacRule, TestCluster};
use k8s_openapi::api::core::v1::Pod;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::{Value, json};

pub(crate) const NAMESPACE: &str = "boxes";
pub(crate) const IMAGE: &str = "tests/shell:1";

/// A cluster, or `None` with a message where none can run.
pub(crate) fn start(test: &str) -> Option<TestCluster> {
    if let Some(missing) = cluster::missing_requirement() {
        println!("NEEDS ROOT: {test} was not run, because there is no {missing}");
        return None;
    }
    let settings = ClusterSettings {
        images: vec![ClusterImage::new(IMAGE)],
        ..ClusterSettings::new(NAMESPACE)
    };
    Some(TestCluster::start(settings).unwrap())
}

/// A kubeconfig with all permissions.
pub(crate) fn admin(cluster: &TestCluster) -> PathBuf {
    cluster.kubeconfig("admin", NAMESPACE, vec![RbacRule::all()]).unwrap()
}

pub(crate) async fn client(kubeconfig: &Path) -> Client {
    let config = Kubeconfig::read_from(kubeconfig).unwrap();
    let config =
        Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

pub(crate) async fn pods(cluster: &TestCluster) -> Api<Pod> {
    Api::namespaced(client(&admin(cluster)).await, NAMESPACE)
}

/// A pod that satisfies the restricted standard and runs a shell script.
pub(crate) fn body(name: &str, script: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "test"}},
        "spec": {
            "restartPolicy": "Never", "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 0,
            "securityContext": {"runAsNonRoot": true, "runAsUser": 65534, "runAsGroup": 65534,
                "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{
                "name": "main", "image": IMAGE, "command": ["sh", "-c", script], "stdin": true, "stdinOnce": true,
                "resources": {"limits": {"memory": "64Mi", "cpu": "1"}},
                "securityContext": {"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
                    "capabilities": {"drop": ["ALL"]}},
            }],
        },
    })
}

pub(crate) fn pod(body: Value) -> Pod {
    serde_json::from_value(body).unwrap()
}

/// The phase of the one pod there is.
pub(crate) fn phase(pods: &[Pod]) -> &str {
    pods.first().and_then(|pod| pod.status.as_ref()?.phase.as_deref()).unwrap_or("none")
}

/// `status` of a pod, to look at.
pub(crate) fn status(pod: &Pod) -> Value {
    serde_json::to_value(pod.status.clone().unwrap_or_default()).unwrap()
}
