//! The pod for a shape: a pure function. Its containers are in `containers`.
//!
//! It satisfies the *restricted* Pod Security Standard. Every field that we rely on is set
//! explicitly, even to its default, so that it can be compared with what the API server has created
//! (`check`).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    EmptyDirVolumeSource, Pod, PodDNSConfig, PodSecurityContext, PodSpec, SeccompProfile,
    Toleration, Volume,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::containers;
use crate::container_backend::{LEASE_LABEL, NOBODY_UID, OWNER_LABEL, VERSION_LABEL};
use crate::launcher::{Owner, Shape};
use crate::policy::WRITABLE;

/// The label of all pods of Skillbox, of all owners.
pub(super) const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "skillbox");

/// The container that the script runs in.
pub(super) const SKILL: &str = "skill";

/// The init container that copies the guest, and the name of its volume.
pub(super) const GUEST: &str = "guest";

/// Several times the guest program.
const GUEST_VOLUME_BYTES: u64 = 16 << 20;

/// How long a pod stays on a node that does not respond. The default is five minutes.
const UNREACHABLE_SECONDS: i64 = 30;

/// The properties of a pod that do not come from its shape.
#[derive(Debug, Clone, Copy)]
pub(super) struct PodSettings<'a> {
    pub name: &'a str,
    pub namespace: &'a str,
    pub image: &'a str,
    /// The image with the guest, and the SHA-256 of the expected guest.
    pub guest_image: &'a str,
    pub guest_digest: &'a str,
    /// The cluster's default when `None`.
    pub runtime_class: Option<&'a str>,
    /// A profile in the kubelet's directory on the nodes; the container runtime's default when
    /// `None`.
    pub seccomp_profile: Option<&'a str>,
    pub user_namespaces: bool,
    pub owner: &'a Owner,
    pub lease_until: u64,
    /// The pod's own deadline, which holds even if this worker dies.
    pub lifetime_seconds: u64,
    /// The limit of the node's disk. The kubelet writes the whole output of a container to a log.
    pub ephemeral_bytes: u64,
}

/// The pod of one run. The guest uses its standard streams, and nothing else connects to it.
pub(super) fn sandbox(shape: &Shape, settings: &PodSettings<'_>) -> Pod {
    Pod {
        metadata: ObjectMeta {
            name: Some(settings.name.to_owned()),
            namespace: Some(settings.namespace.to_owned()),
            labels: Some(labels(settings)),
            annotations: Some(annotations()),
            ..ObjectMeta::default()
        },
        spec: Some(spec(shape, settings)),
        status: None,
    }
}

fn labels(settings: &PodSettings<'_>) -> BTreeMap<String, String> {
    let labels = [
        (MANAGED_BY.0, MANAGED_BY.1.to_owned()),
        ("app.kubernetes.io/component", "sandbox".to_owned()),
        (OWNER_LABEL, label_value(&settings.owner.0)),
        (LEASE_LABEL, settings.lease_until.to_string()),
        (VERSION_LABEL, env!("CARGO_PKG_VERSION").to_owned()),
    ];
    labels.map(|(name, value)| (name.to_owned(), value)).into()
}

fn annotations() -> BTreeMap<String, String> {
    let annotations = [
        // A run cannot be moved to another node, so an eviction would lose it.
        ("cluster-autoscaler.kubernetes.io/safe-to-evict", "false"),
        // The output of the container is tenant data in frames, which log collectors must not copy.
        ("fluentbit.io/exclude", "true"),
    ];
    annotations.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

/// An owner's name with the characters and the length that the API server accepts in a label.
pub(super) fn label_value(text: &str) -> String {
    let allowed =
        |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' };
    let text: String = text.chars().map(allowed).take(63).collect();
    text.trim_matches(|c: char| !c.is_ascii_alphanumeric()).to_owned()
}

fn spec(shape: &Shape, settings: &PodSettings<'_>) -> PodSpec {
    PodSpec {
        // Identity: none in the cluster, and nobody on the node.
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        hostname: Some("sandbox".to_owned()),
        security_context: Some(pod_security(settings)),
        // Namespaces: none is shared.
        host_network: Some(false),
        host_pid: Some(false),
        host_ipc: Some(false),
        host_users: settings.user_namespaces.then_some(false),
        share_process_namespace: Some(false),
        dns_policy: Some("None".to_owned()),
        // The API server requires a name server; nothing listens at this one.
        dns_config: Some(PodDNSConfig {
            nameservers: Some(vec!["127.0.0.1".to_owned()]),
            ..PodDNSConfig::default()
        }),
        // Containers, which run once.
        runtime_class_name: settings.runtime_class.map(str::to_owned),
        node_selector: Some([("kubernetes.io/os".to_owned(), "linux".to_owned())].into()),
        init_containers: Some(vec![containers::guest(settings)]),
        containers: vec![containers::skill(shape, settings)],
        volumes: Some(volumes(shape)),
        restart_policy: Some("Never".to_owned()),
        // Its end: without a grace period, and at its own deadline at the latest.
        active_deadline_seconds: Some(settings.lifetime_seconds.cast_signed()),
        termination_grace_period_seconds: Some(0),
        tolerations: Some(["not-ready", "unreachable"].map(toleration).to_vec()),
        ..PodSpec::default()
    }
}

fn pod_security(settings: &PodSettings<'_>) -> PodSecurityContext {
    PodSecurityContext {
        run_as_non_root: Some(true),
        run_as_user: Some(NOBODY_UID.into()),
        run_as_group: Some(NOBODY_UID.into()),
        seccomp_profile: Some(seccomp(settings)),
        ..PodSecurityContext::default()
    }
}

pub(super) fn seccomp(settings: &PodSettings<'_>) -> SeccompProfile {
    match settings.seccomp_profile {
        Some(profile) => SeccompProfile {
            type_: "Localhost".to_owned(),
            localhost_profile: Some(profile.to_owned()),
        },
        None => SeccompProfile { type_: "RuntimeDefault".to_owned(), localhost_profile: None },
    }
}

/// All volumes are in memory: no tenant data is written to the node's disk, and their contents
/// count as memory.
fn volumes(shape: &Shape) -> Vec<Volume> {
    let scratch = WRITABLE.iter().map(|path| volume(volume_name(path), shape.disk_bytes));
    std::iter::once(volume(GUEST, GUEST_VOLUME_BYTES)).chain(scratch).collect()
}

fn volume(name: &str, size: u64) -> Volume {
    let directory = EmptyDirVolumeSource {
        medium: Some("Memory".to_owned()),
        size_limit: Some(bytes(size)),
        ..EmptyDirVolumeSource::default()
    };
    Volume { name: name.to_owned(), empty_dir: Some(directory), ..Volume::default() }
}

/// The name of the volume for a path: its last segment.
pub(super) fn volume_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

pub(super) fn bytes(count: u64) -> Quantity {
    Quantity(count.to_string())
}

fn toleration(condition: &str) -> Toleration {
    Toleration {
        key: Some(format!("node.kubernetes.io/{condition}")),
        operator: Some("Exists".to_owned()),
        effect: Some("NoExecute".to_owned()),
        toleration_seconds: Some(UNREACHABLE_SECONDS),
        ..Toleration::default()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::Value;

    use super::*;
    use language::Language;

    pub(crate) fn shape() -> Shape {
        Shape {
            language: Language::Python,
            image: None,
            memory_bytes: 256 << 20,
            cpu_millis: 500,
            pids: 64,
            disk_bytes: 128 << 20,
            disk_inodes: 16_384,
        }
    }

    pub(crate) fn settings(owner: &Owner) -> PodSettings<'_> {
        PodSettings {
            name: "skillbox-run-0123",
            namespace: "skillbox-sandboxes",
            image: "python:3.12-slim",
            guest_image: "skillbox:0.1.0",
            guest_digest: "abc",
            runtime_class: None,
            seccomp_profile: None,
            user_namespaces: false,
            owner,
            lease_until: 1_800_000_000,
            lifetime_seconds: 1200,
            ephemeral_bytes: 256 << 20,
        }
    }

    fn json(shape: &Shape, settings: &PodSettings<'_>) -> Value {
        serde_json::to_value(sandbox(shape, settings)).expect("a pod is JSON")
    }

    /// Every path at which two values differ.
    fn differences(one: &Value, other: &Value, at: &str, found: &mut Vec<String>) {
        match (one, other) {
            (Value::Object(one), Value::Object(other)) => {
                let keys: std::collections::BTreeSet<_> = one.keys().chain(other.keys()).collect();
                for key in keys {
                    let get = |map: &serde_json::Map<String, Value>| {
                        map.get(key).cloned().unwrap_or_default()
                    };
                    differences(&get(one), &get(other), &format!("{at}/{key}"), found);
                }
            }
            (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
                for (index, (one, other)) in one.iter().zip(other).enumerate() {
                    differences(one, other, &format!("{at}/{index}"), found);
                }
            }
            (one, other) if one != other => found.push(at.to_owned()),
            _ => {}
        }
    }

    #[test]
    fn a_sandbox() {
        insta::assert_json_snapshot!(json(&shape(), &settings(&Owner("worker-1".to_owned()))));
    }

    #[test]
    fn another_shape_changes_only_limits() {
        let owner = Owner("worker-1".to_owned());
        let small = Shape { memory_bytes: 1 << 20, cpu_millis: 1500, disk_bytes: 4096, ..shape() };
        let mut found = Vec::new();
        differences(
            &json(&shape(), &settings(&owner)),
            &json(&small, &settings(&owner)),
            "",
            &mut found,
        );
        let ours = |place: &String| {
            place.ends_with("/sizeLimit") || place.contains("/containers/0/resources/")
        };
        assert!(found.iter().all(ours) && found.len() == 9, "{found:#?}");
    }

    #[test]
    fn each_setting_changes_only_its_own_fields() {
        let owner = Owner("worker-1".to_owned());
        let before = json(&shape(), &settings(&owner));
        let changed = |settings: PodSettings<'_>| {
            let mut found = Vec::new();
            differences(&before, &json(&shape(), &settings), "", &mut found);
            found
        };
        let class = PodSettings { runtime_class: Some("gvisor"), ..settings(&owner) };
        assert_eq!(changed(class), ["/spec/runtimeClassName"]);
        let users = PodSettings { user_namespaces: true, ..settings(&owner) };
        assert_eq!(changed(users), ["/spec/hostUsers"]);
        let profile = PodSettings { seccomp_profile: Some("skillbox.json"), ..settings(&owner) };
        let places = changed(profile);
        assert!(
            places.iter().all(|place| place.contains("/seccompProfile/")) && places.len() == 6,
            "{places:?}"
        );
    }

    #[test]
    fn owner_names_become_valid_labels() {
        for (name, label) in
            [("0198-abc", "0198-abc"), ("host:1/worker ", "host-1-worker"), ("..a", "a")]
        {
            assert_eq!(label_value(name), label);
        }
        assert_eq!(label_value(&"x".repeat(100)).len(), 63);
    }
}
