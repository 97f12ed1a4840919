//! From a shape to the pod that is asked for: a pure function, and all hardening on one page.
//!
//! It satisfies the *restricted* Pod Security Standard. What we rely on is said explicitly, also
//! where it is a default, so that it can be compared with what the API server then says it has made
//! (`check`).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Capabilities, Container, EmptyDirVolumeSource, Pod, PodDNSConfig, PodSecurityContext, PodSpec,
    ResourceRequirements, SeccompProfile, SecurityContext, Toleration, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::contained::{
    GUEST_DIRECTORY, GUEST_PROGRAM, LEASE_LABEL, OWNER_LABEL, USER, VERSION_LABEL,
};
use crate::launcher::{Owner, Shape};
use crate::policy::WRITABLE;

/// What every pod of ours is found by, whoever owns it.
pub const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "skillbox");

/// The container that the script runs in.
pub const SKILL: &str = "skill";

/// The container that brings the guest.
pub const GUEST: &str = "guest";

/// Several times the guest program.
const GUEST_VOLUME_BYTES: u64 = 16 << 20;

/// Enough for the program that copies the guest.
const GUEST_MEMORY_BYTES: u64 = 64 << 20;
const GUEST_CPU_MILLIS: u32 = 100;

/// How long a pod stays on a node that does not answer. By default it would be five minutes.
const UNREACHABLE_SECONDS: i64 = 30;

/// What a pod is made with that does not come from its shape.
#[derive(Debug, Clone, Copy)]
pub struct Setting<'a> {
    pub name: &'a str,
    pub namespace: &'a str,
    pub image: &'a str,
    /// The image that has the guest inside, and the SHA-256 of the one that is wanted.
    pub guest_image: &'a str,
    pub guest_digest: &'a str,
    /// The cluster's default when `None`.
    pub runtime_class: Option<&'a str>,
    /// A profile on the nodes, below the kubelet's own directory; the container runtime's default
    /// when `None`.
    pub seccomp_profile: Option<&'a str>,
    pub user_namespaces: bool,
    pub owner: &'a Owner,
    pub lease_until: u64,
    /// The end of the pod, whatever happens to us.
    pub lifetime_seconds: u64,
    /// What may lie on the node's disk: the kubelet keeps everything that a container says.
    pub ephemeral_bytes: u64,
}

/// The pod of one run: a guest on its standard streams, and nothing else.
pub fn sandbox(shape: &Shape, setting: &Setting<'_>) -> Pod {
    Pod {
        metadata: ObjectMeta {
            name: Some(setting.name.to_owned()),
            namespace: Some(setting.namespace.to_owned()),
            labels: Some(labels(setting)),
            annotations: Some(annotations()),
            ..ObjectMeta::default()
        },
        spec: Some(spec(shape, setting)),
        status: None,
    }
}

fn labels(setting: &Setting<'_>) -> BTreeMap<String, String> {
    let labels = [
        (MANAGED_BY.0, MANAGED_BY.1.to_owned()),
        ("app.kubernetes.io/component", "sandbox".to_owned()),
        (OWNER_LABEL, label_value(&setting.owner.0)),
        (LEASE_LABEL, setting.lease_until.to_string()),
        (VERSION_LABEL, env!("CARGO_PKG_VERSION").to_owned()),
    ];
    labels.map(|(name, value)| (name.to_owned(), value)).into()
}

fn annotations() -> BTreeMap<String, String> {
    let annotations = [
        // A run that is moved is a run that is lost.
        ("cluster-autoscaler.kubernetes.io/safe-to-evict", "false"),
        // What the container says is a tenant's, in frames; no collector of logs has business with
        // it.
        ("fluentbit.io/exclude", "true"),
    ];
    annotations.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

/// An owner's name as far as the API server takes it for a label.
pub fn label_value(text: &str) -> String {
    let plain =
        |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' };
    let text: String = text.chars().map(plain).take(63).collect();
    text.trim_matches(|c: char| !c.is_ascii_alphanumeric()).to_owned()
}

fn spec(shape: &Shape, setting: &Setting<'_>) -> PodSpec {
    PodSpec {
        // Who it is: nobody, to the cluster and on the node.
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        hostname: Some("sandbox".to_owned()),
        security_context: Some(pod_security(setting)),
        // What it shares with nobody.
        host_network: Some(false),
        host_pid: Some(false),
        host_ipc: Some(false),
        host_users: setting.user_namespaces.then_some(false),
        share_process_namespace: Some(false),
        dns_policy: Some("None".to_owned()),
        // The API server wants one; nothing answers there.
        dns_config: Some(PodDNSConfig {
            nameservers: Some(vec!["127.0.0.1".to_owned()]),
            ..PodDNSConfig::default()
        }),
        // What runs in it, once.
        runtime_class_name: setting.runtime_class.map(str::to_owned),
        node_selector: Some([("kubernetes.io/os".to_owned(), "linux".to_owned())].into()),
        init_containers: Some(vec![guest(setting)]),
        containers: vec![skill(shape, setting)],
        volumes: Some(volumes(shape)),
        restart_policy: Some("Never".to_owned()),
        // How it ends: at once, and not later than anybody can want it.
        active_deadline_seconds: Some(setting.lifetime_seconds.cast_signed()),
        termination_grace_period_seconds: Some(0),
        tolerations: Some(["not-ready", "unreachable"].map(tolerated_for_a_while).to_vec()),
        ..PodSpec::default()
    }
}

fn pod_security(setting: &Setting<'_>) -> PodSecurityContext {
    PodSecurityContext {
        run_as_non_root: Some(true),
        run_as_user: Some(USER.into()),
        run_as_group: Some(USER.into()),
        seccomp_profile: Some(seccomp(setting)),
        ..PodSecurityContext::default()
    }
}

fn seccomp(setting: &Setting<'_>) -> SeccompProfile {
    match setting.seccomp_profile {
        Some(profile) => SeccompProfile {
            type_: "Localhost".to_owned(),
            localhost_profile: Some(profile.to_owned()),
        },
        None => SeccompProfile { type_: "RuntimeDefault".to_owned(), localhost_profile: None },
    }
}

/// The container of the script: the guest is its first process, and says nothing before it is
/// spoken to.
fn skill(shape: &Shape, setting: &Setting<'_>) -> Container {
    let scratch = WRITABLE.iter().map(|path| mount(volume_name(path), path, false));
    Container {
        command: Some(vec![GUEST_PROGRAM.to_owned(), "guest-stdio".to_owned()]),
        stdin: Some(true),
        // The end of our connection is the end of the guest's input, and so the end of the guest.
        stdin_once: Some(true),
        tty: Some(false),
        resources: Some(resources(shape.cpu_millis, shape.memory_bytes, setting.ephemeral_bytes)),
        volume_mounts: Some(
            std::iter::once(mount(GUEST, GUEST_DIRECTORY, true)).chain(scratch).collect(),
        ),
        ..container(SKILL, setting.image, setting)
    }
}

/// Puts the guest into its volume. No byte of a tenant comes near it.
fn guest(setting: &Setting<'_>) -> Container {
    let command = ["skillbox", "guest-copy", GUEST_DIRECTORY, setting.guest_digest];
    Container {
        command: Some(command.map(str::to_owned).to_vec()),
        // What it says when it fails is what we say.
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        resources: Some(resources(GUEST_CPU_MILLIS, GUEST_MEMORY_BYTES, setting.ephemeral_bytes)),
        volume_mounts: Some(vec![mount(GUEST, GUEST_DIRECTORY, false)]),
        ..container(GUEST, setting.guest_image, setting)
    }
}

fn container(name: &str, image: &str, setting: &Setting<'_>) -> Container {
    Container {
        name: name.to_owned(),
        image: Some(image.to_owned()),
        image_pull_policy: Some("IfNotPresent".to_owned()),
        working_dir: Some("/".to_owned()),
        security_context: Some(SecurityContext {
            privileged: Some(false),
            allow_privilege_escalation: Some(false),
            read_only_root_filesystem: Some(true),
            run_as_non_root: Some(true),
            run_as_user: Some(USER.into()),
            run_as_group: Some(USER.into()),
            capabilities: Some(Capabilities { add: None, drop: Some(vec!["ALL".to_owned()]) }),
            seccomp_profile: Some(seccomp(setting)),
            ..SecurityContext::default()
        }),
        ..Container::default()
    }
}

/// Asked for is what may be had, so that a pod gets all of it or is not placed.
fn resources(cpu_millis: u32, memory_bytes: u64, ephemeral_bytes: u64) -> ResourceRequirements {
    let amounts: BTreeMap<String, Quantity> = [
        ("cpu".to_owned(), Quantity(format!("{cpu_millis}m"))),
        ("memory".to_owned(), bytes(memory_bytes)),
        ("ephemeral-storage".to_owned(), bytes(ephemeral_bytes)),
    ]
    .into();
    ResourceRequirements {
        limits: Some(amounts.clone()),
        requests: Some(amounts),
        ..ResourceRequirements::default()
    }
}

/// In memory, all of them: nothing of a tenant touches the node's disk, and what lies there counts
/// as memory.
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

/// The last part of its path.
fn volume_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn mount(volume: &str, path: &str, read_only: bool) -> VolumeMount {
    VolumeMount {
        name: volume.to_owned(),
        mount_path: path.to_owned(),
        read_only: Some(read_only),
        ..VolumeMount::default()
    }
}

fn bytes(count: u64) -> Quantity {
    Quantity(count.to_string())
}

fn tolerated_for_a_while(trouble: &str) -> Toleration {
    Toleration {
        key: Some(format!("node.kubernetes.io/{trouble}")),
        operator: Some("Exists".to_owned()),
        effect: Some("NoExecute".to_owned()),
        toleration_seconds: Some(UNREACHABLE_SECONDS),
        ..Toleration::default()
    }
}

#[cfg(test)]
pub mod tests {
    use serde_json::Value;

    use super::*;
    use language::Language;

    pub fn shape() -> Shape {
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

    pub fn setting(owner: &Owner) -> Setting<'_> {
        Setting {
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

    fn json(shape: &Shape, setting: &Setting<'_>) -> Value {
        serde_json::to_value(sandbox(shape, setting)).expect("a pod is JSON")
    }

    /// Every place in which two values differ.
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
        insta::assert_json_snapshot!(json(&shape(), &setting(&Owner("worker-1".to_owned()))));
    }

    #[test]
    fn another_shape_changes_only_limits() {
        let owner = Owner("worker-1".to_owned());
        let small = Shape { memory_bytes: 1 << 20, cpu_millis: 1500, disk_bytes: 4096, ..shape() };
        let mut found = Vec::new();
        differences(
            &json(&shape(), &setting(&owner)),
            &json(&small, &setting(&owner)),
            "",
            &mut found,
        );
        let ours = |place: &String| {
            place.ends_with("/sizeLimit") || place.contains("/containers/0/resources/")
        };
        assert!(found.iter().all(ours) && found.len() == 9, "{found:#?}");
    }

    #[test]
    fn settings_change_their_own_fields_alone() {
        let owner = Owner("worker-1".to_owned());
        let before = json(&shape(), &setting(&owner));
        let changed = |setting: Setting<'_>| {
            let mut found = Vec::new();
            differences(&before, &json(&shape(), &setting), "", &mut found);
            found
        };
        let class = Setting { runtime_class: Some("gvisor"), ..setting(&owner) };
        assert_eq!(changed(class), ["/spec/runtimeClassName"]);
        let users = Setting { user_namespaces: true, ..setting(&owner) };
        assert_eq!(changed(users), ["/spec/hostUsers"]);
        let profile = Setting { seccomp_profile: Some("skillbox.json"), ..setting(&owner) };
        let places = changed(profile);
        assert!(
            places.iter().all(|place| place.contains("/seccompProfile/")) && places.len() == 6,
            "{places:?}"
        );
    }

    #[test]
    fn an_owners_name_becomes_a_label() {
        for (name, label) in
            [("0198-abc", "0198-abc"), ("host:1/worker ", "host-1-worker"), ("..a", "a")]
        {
            assert_eq!(label_value(name), label);
        }
        assert_eq!(label_value(&"x".repeat(100)).len(), 63);
    }
}
