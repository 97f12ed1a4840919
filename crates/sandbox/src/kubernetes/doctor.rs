//! What a cluster offers to sandboxes, and what is missing around them, for a person to read.

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

use super::cluster::Cluster;
use super::{KubernetesConfig, KubernetesLauncher};
use crate::isolation::{Control, Isolation};
use crate::launcher::{LaunchError, Launcher};

/// No question takes longer on an API server that works.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// What a namespace says about the pods that it lets in.
const POD_SECURITY: &str = "pod-security.kubernetes.io/enforce";

/// Everything we ever do: the verb, and what it is done to.
const RIGHTS: [(&str, &str, Option<&str>); 7] = [
    ("create", "pods", None),
    ("get", "pods", None),
    ("list", "pods", None),
    ("watch", "pods", None),
    ("delete", "pods", None),
    ("get", "pods", Some("attach")),
    ("create", "pods", Some("attach")),
];

/// The findings; `problem` is set when nothing can run in this cluster.
#[derive(Debug, Serialize)]
pub struct KubernetesReport {
    pub address: Option<String>,
    pub version: Option<String>,
    pub namespace: String,
    pub runtime_class: Option<String>,
    /// What the namespace enforces of the Pod Security Standards, as far as it can be seen.
    pub pod_security: Option<String>,
    /// What we may not do and need to.
    pub missing_rights: Vec<String>,
    pub warnings: Vec<String>,
    pub isolation: Option<Isolation>,
    pub problem: Option<String>,
}

/// Asks the cluster about itself and makes one real pod to see what holds in it.
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
        Ok(launcher) => report.look(&launcher).await,
        Err(error) => report.problem = Some(told(&error)),
    }
    report
}

/// What a question came to.
enum Answer<T> {
    Yes(T),
    /// There is no such thing.
    None,
    /// We may not know, or nobody answered.
    Unknown,
}

impl KubernetesReport {
    async fn look(&mut self, launcher: &KubernetesLauncher) {
        let cluster = &launcher.cluster;
        self.address = Some(cluster.address.clone());
        self.version = cluster.version().await.ok();
        self.look_at_rights(cluster).await;
        self.look_at_namespace(cluster).await;
        self.look_at_network(cluster).await;
        self.look_at_runtime_class(cluster).await;
        if !self.missing_rights.is_empty() && self.problem.is_none() {
            self.problem = Some(format!(
                "we may not {} in {}",
                self.missing_rights.join(", "),
                self.namespace
            ));
        }
        if self.problem.is_none() {
            match launcher.probe().await {
                Ok(isolation) => self.isolation = Some(isolation),
                Err(error) => self.problem = Some(told(&error)),
            }
        }
    }

    async fn look_at_rights(&mut self, cluster: &Cluster) {
        for (verb, resource, part) in RIGHTS {
            if may(cluster, verb, resource, part).await == Some(false) {
                let part = part.map(|part| format!("/{part}")).unwrap_or_default();
                self.missing_rights.push(format!("{verb} {resource}{part}"));
            }
        }
    }

    async fn look_at_namespace(&mut self, cluster: &Cluster) {
        let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
        match answer(namespaces.get(&cluster.namespace)).await {
            Answer::Yes(namespace) => {
                let labels = namespace.metadata.labels.unwrap_or_default();
                self.pod_security = labels.get(POD_SECURITY).cloned();
                if self.pod_security.as_deref() != Some("restricted") {
                    self.warnings.push(format!(
                        "the namespace {} does not enforce the restricted Pod Security Standard. Our pods satisfy it: \
                         `kubectl label namespace {0} {POD_SECURITY}=restricted` keeps others out that do not.",
                        self.namespace
                    ));
                }
            }
            Answer::None => {
                self.problem = Some(format!("there is no namespace {}", self.namespace))
            }
            Answer::Unknown => self.unknown("which pods the namespace lets in (get namespaces)"),
        }
    }

    async fn look_at_network(&mut self, cluster: &Cluster) {
        let policies: Api<NetworkPolicy> =
            Api::namespaced(cluster.client.clone(), &cluster.namespace);
        match answer(policies.list(&ListParams::default())).await {
            Answer::Yes(list) if list.items.iter().any(|policy| policy.spec.as_ref().is_some_and(denies_all)) => {}
            Answer::Yes(_) | Answer::None => self.warnings.push(format!(
                "the namespace {} has no NetworkPolicy that denies everything. Scripts get no socket that leads to a \
                 network, and this is the wall behind that one.",
                self.namespace
            )),
            Answer::Unknown => self.unknown("whether a NetworkPolicy denies everything (list networkpolicies)"),
        }
    }

    async fn look_at_runtime_class(&mut self, cluster: &Cluster) {
        let Some(name) = self.runtime_class.clone() else {
            self.warnings.push(
                "containers share their node's kernel, and a hole in it is a way out. SKILLBOX_KUBE_RUNTIME_CLASS with a \
                 class of gVisor or Kata puts another kernel in between."
                    .to_owned(),
            );
            return;
        };
        let classes: Api<RuntimeClass> = Api::all(cluster.client.clone());
        match answer(classes.get(&name)).await {
            Answer::Yes(_) => {}
            Answer::None => self.problem = Some(format!("there is no RuntimeClass {name}")),
            Answer::Unknown => self.unknown("whether the RuntimeClass exists (get runtimeclasses)"),
        }
    }

    fn unknown(&mut self, what: &str) {
        self.warnings.push(format!("not allowed to see {what}."));
    }

    /// True when skills can run in this cluster.
    pub fn is_healthy(&self) -> bool {
        self.problem.is_none()
    }
}

/// Whether we may do this; none when the API server does not say.
async fn may(cluster: &Cluster, verb: &str, resource: &str, part: Option<&str>) -> Option<bool> {
    let reviews: Api<SelfSubjectAccessReview> = Api::all(cluster.client.clone());
    let attributes = ResourceAttributes {
        namespace: Some(cluster.namespace.clone()),
        verb: Some(verb.to_owned()),
        resource: Some(resource.to_owned()),
        subresource: part.map(str::to_owned),
        ..ResourceAttributes::default()
    };
    let spec = SelfSubjectAccessReviewSpec {
        resource_attributes: Some(attributes),
        non_resource_attributes: None,
    };
    let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
    match answer(reviews.create(&PostParams::default(), &review)).await {
        Answer::Yes(review) => review.status.map(|status| status.allowed),
        Answer::None | Answer::Unknown => None,
    }
}

async fn answer<T>(question: impl Future<Output = Result<T, Error>>) -> Answer<T> {
    match timeout(ANSWER_WITHIN, question).await {
        Ok(Ok(answer)) => Answer::Yes(answer),
        Ok(Err(Error::Api(status))) if status.code == 404 => Answer::None,
        Ok(Err(_)) | Err(_) => Answer::Unknown,
    }
}

/// Chooses every pod, in both directions, and lets nothing through.
fn denies_all(policy: &NetworkPolicySpec) -> bool {
    let everybody = policy.pod_selector.as_ref().is_none_or(|selector| {
        selector.match_labels.as_ref().is_none_or(|labels| labels.is_empty())
            && selector.match_expressions.as_ref().is_none_or(|expressions| expressions.is_empty())
    });
    let types = policy.policy_types.as_deref().unwrap_or_default();
    let both =
        ["Ingress", "Egress"].iter().all(|direction| types.iter().any(|named| named == direction));
    let nothing = policy.ingress.as_ref().is_none_or(|rules| rules.is_empty())
        && policy.egress.as_ref().is_none_or(|rules| rules.is_empty());
    everybody && both && nothing
}

fn told(error: &LaunchError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        if !text.contains(&inner.to_string()) {
            text.push_str(&format!(": {inner}"));
        }
        source = inner.source();
    }
    text
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
            writeln!(f, "\nisolation, measured in a pod made just now")?;
            for control in Control::ALL {
                match isolation.controls.get(&control) {
                    Some(how) => writeln!(f, "  ok   {control:<20} {how}")?,
                    None => writeln!(f, "  --   {control:<20} not there")?,
                }
            }
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
    fn only_a_policy_that_lets_nothing_through_denies_everything() {
        let judged = |spec| denies_all(&serde_json::from_value(spec).expect("a policy"));
        let both = json!(["Ingress", "Egress"]);
        assert!(judged(json!({ "podSelector": {}, "policyTypes": both })));
        assert!(!judged(json!({ "podSelector": {}, "policyTypes": ["Ingress"] })));
        assert!(!judged(json!({ "podSelector": {}, "policyTypes": both, "egress": [{}] })));
        assert!(!judged(
            json!({ "podSelector": { "matchLabels": { "a": "b" } }, "policyTypes": both })
        ));
    }
}
