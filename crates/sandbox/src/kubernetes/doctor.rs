//! The doctor's report on a cluster: its features, and missing protections around sandboxes.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::networking::v1::{NetworkPolicy, NetworkPolicySpec};
use k8s_openapi::api::node::v1::RuntimeClass;
use kube::Error;
use kube::api::{Api, ListParams, PostParams};
use serde::Serialize;
use tokio::time::timeout;

use super::client::ClusterClient;
use super::{KubernetesConfig, KubernetesLauncher};
use crate::container_backend::{error_with_sources, write_controls};
use crate::isolation::Isolation;
use crate::launcher::Launcher;

/// The timeout of every request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The label with the Pod Security Standard that a namespace enforces.
const POD_SECURITY: &str = "pod-security.kubernetes.io/enforce";

/// All permissions that a worker needs: verb, resource and subresource.
const REQUIRED_PERMISSIONS: [(&str, &str, Option<&str>); 7] = [
    ("create", "pods", None),
    ("get", "pods", None),
    ("list", "pods", None),
    ("watch", "pods", None),
    ("delete", "pods", None),
    ("get", "pods", Some("attach")),
    ("create", "pods", Some("attach")),
];

/// The findings; `problem` is set when no skill can run in this cluster.
#[derive(Debug, Serialize)]
pub struct KubernetesReport {
    pub address: Option<String>,
    pub version: Option<String>,
    pub namespace: String,
    pub runtime_class: Option<String>,
    /// The Pod Security Standard that the namespace enforces, if we may read it.
    pub pod_security: Option<String>,
    /// The required permissions that we do not have.
    pub missing_rights: Vec<String>,
    pub warnings: Vec<String>,
    pub isolation: Option<Isolation>,
    pub problem: Option<String>,
}

/// Reads the cluster's configuration and starts one real pod to measure its isolation.
pub async fn kubernetes_doctor(config: KubernetesConfig) -> KubernetesReport {
    let mut report = KubernetesReport {
        address: None,
        version: None,
        namespace: config.namespace.clone(),
        runtime_class: config.runtime_class.clone(),
        pod_security: None,
        missing_rights: Vec::new(),
        warnings: Vec::new(),
        isolation: None,
        problem: None,
    };
    match KubernetesLauncher::start(config).await {
        Ok(launcher) => report.inspect(&launcher).await,
        Err(error) => report.problem = Some(error_with_sources(&error)),
    }
    report
}

/// The result of a request about the cluster.
enum Lookup<T> {
    Found(T),
    /// The object does not exist.
    NotFound,
    /// We are not allowed to read it, or the API server did not respond.
    Unknown,
}

impl KubernetesReport {
    async fn inspect(&mut self, launcher: &KubernetesLauncher) {
        let client = &launcher.client;
        self.address = Some(client.address.clone());
        self.version = client.version().await.ok();
        self.check_permissions(client).await;
        self.check_namespace(client).await;
        self.check_network_policy(client).await;
        self.check_runtime_class(client).await;
        if !self.missing_rights.is_empty() && self.problem.is_none() {
            self.problem = Some(format!(
                "missing permissions: {} in {}",
                self.missing_rights.join(", "),
                self.namespace
            ));
        }
        if self.problem.is_none() {
            match launcher.probe().await {
                Ok(isolation) => self.isolation = Some(isolation),
                Err(error) => self.problem = Some(error_with_sources(&error)),
            }
        }
    }

    async fn check_permissions(&mut self, client: &ClusterClient) {
        for (verb, resource, part) in REQUIRED_PERMISSIONS {
            if is_allowed(client, verb, resource, part).await == Some(false) {
                let part = part.map(|part| format!("/{part}")).unwrap_or_default();
                self.missing_rights.push(format!("{verb} {resource}{part}"));
            }
        }
    }

    async fn check_namespace(&mut self, client: &ClusterClient) {
        let namespaces: Api<Namespace> = Api::all(client.client.clone());
        match look_up(namespaces.get(&client.namespace)).await {
            Lookup::Found(namespace) => {
                let labels = namespace.metadata.labels.unwrap_or_default();
                self.pod_security = labels.get(POD_SECURITY).cloned();
                if self.pod_security.as_deref() != Some("restricted") {
                    self.warnings.push(format!(
                        "the namespace {} does not enforce the restricted Pod Security Standard. Our pods satisfy it: \
                         `kubectl label namespace {0} {POD_SECURITY}=restricted` rejects other pods that do not.",
                        self.namespace
                    ));
                }
            }
            Lookup::NotFound => {
                self.problem = Some(format!("there is no namespace {}", self.namespace))
            }
            Lookup::Unknown => {
                self.warn_unknown("which pods the namespace admits (get namespaces)")
            }
        }
    }

    async fn check_network_policy(&mut self, client: &ClusterClient) {
        let policies: Api<NetworkPolicy> =
            Api::namespaced(client.client.clone(), &client.namespace);
        match look_up(policies.list(&ListParams::default())).await {
            Lookup::Found(list) if list.items.iter().any(|policy| policy.spec.as_ref().is_some_and(denies_all)) => {}
            Lookup::Found(_) | Lookup::NotFound => self.warnings.push(format!(
                "the namespace {} has no NetworkPolicy that denies everything. Scripts cannot open a network socket; \
                 the policy is a second barrier behind that.",
                self.namespace
            )),
            Lookup::Unknown => self.warn_unknown("whether a NetworkPolicy denies everything (list networkpolicies)"),
        }
    }

    async fn check_runtime_class(&mut self, client: &ClusterClient) {
        let Some(name) = self.runtime_class.clone() else {
            self.warnings.push(
                "containers share their node's kernel, so a vulnerability in it is a way out. SKILLBOX_KUBE_RUNTIME_CLASS \
                 with a class of gVisor or Kata adds another kernel in between."
                    .to_owned(),
            );
            return;
        };
        let classes: Api<RuntimeClass> = Api::all(client.client.clone());
        match look_up(classes.get(&name)).await {
            Lookup::Found(_) => {}
            Lookup::NotFound => self.problem = Some(format!("there is no RuntimeClass {name}")),
            Lookup::Unknown => {
                self.warn_unknown("whether the RuntimeClass exists (get runtimeclasses)")
            }
        }
    }

    fn warn_unknown(&mut self, what: &str) {
        self.warnings.push(format!("not allowed to read {what}."));
    }

    /// True when skills can run in this cluster.
    pub fn is_healthy(&self) -> bool {
        self.problem.is_none()
    }
}

/// Whether we have a permission; `None` when the API server does not report it.
async fn is_allowed(
    client: &ClusterClient,
    verb: &str,
    resource: &str,
    subresource: Option<&str>,
) -> Option<bool> {
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.client.clone());
    let attributes = ResourceAttributes {
        namespace: Some(client.namespace.clone()),
        verb: Some(verb.to_owned()),
        resource: Some(resource.to_owned()),
        subresource: subresource.map(str::to_owned),
        ..ResourceAttributes::default()
    };
    let spec = SelfSubjectAccessReviewSpec {
        resource_attributes: Some(attributes),
        non_resource_attributes: None,
    };
    let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
    match look_up(reviews.create(&PostParams::default(), &review)).await {
        Lookup::Found(review) => review.status.map(|status| status.allowed),
        Lookup::NotFound | Lookup::Unknown => None,
    }
}

async fn look_up<T>(request: impl Future<Output = Result<T, Error>>) -> Lookup<T> {
    match timeout(REQUEST_TIMEOUT, request).await {
        Ok(Ok(found)) => Lookup::Found(found),
        Ok(Err(Error::Api(status))) if status.code == 404 => Lookup::NotFound,
        Ok(Err(_)) | Err(_) => Lookup::Unknown,
    }
}

/// Whether a policy selects all pods and allows nothing in either direction.
fn denies_all(policy: &NetworkPolicySpec) -> bool {
    let all_pods = policy.pod_selector.as_ref().is_none_or(|selector| {
        selector.match_labels.as_ref().is_none_or(|labels| labels.is_empty())
            && selector.match_expressions.as_ref().is_none_or(|expressions| expressions.is_empty())
    });
    let types = policy.policy_types.as_deref().unwrap_or_default();
    let both =
        ["Ingress", "Egress"].iter().all(|direction| types.iter().any(|named| named == direction));
    let nothing = policy.ingress.as_ref().is_none_or(|rules| rules.is_empty())
        && policy.egress.as_ref().is_none_or(|rules| rules.is_empty());
    all_pods && both && nothing
}

impl fmt::Display for KubernetesReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "cluster       {}", self.address.as_deref().unwrap_or("not reached"))?;
        writeln!(f, "  version     {}", self.version.as_deref().unwrap_or("unknown"))?;
        let security = self.pod_security.as_deref().unwrap_or("unknown");
        writeln!(f, "namespace     {} (pod security: {security})", self.namespace)?;
        writeln!(
            f,
            "runtime class {}",
            self.runtime_class.as_deref().unwrap_or("the cluster's default")
        )?;
        if let Some(isolation) = &self.isolation {
            writeln!(f, "\nisolation, measured in a pod started just now")?;
            write_controls(f, isolation)?;
        }
        for warning in &self.warnings {
            writeln!(f, "\nwarning: {warning}")?;
        }
        match &self.problem {
            Some(problem) => writeln!(f, "\nproblem: {problem}"),
            None => writeln!(f, "\nskills can run here"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_policy_that_allows_nothing_denies_everything() {
        let find_weakened_in = |spec| denies_all(&serde_json::from_value(spec).expect("a policy"));
        let both = json!(["Ingress", "Egress"]);
        assert!(find_weakened_in(json!({ "podSelector": {}, "policyTypes": both })));
        assert!(!find_weakened_in(json!({ "podSelector": {}, "policyTypes": ["Ingress"] })));
        assert!(!find_weakened_in(
            json!({ "podSelector": {}, "policyTypes": both, "egress": [{}] })
        ));
        assert!(!find_weakened_in(
            json!({ "podSelector": { "matchLabels": { "a": "b" } }, "policyTypes": both })
        ));
    }
}
