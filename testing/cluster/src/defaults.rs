//! The defaults of the API server, and the additions of the service account plugin.

use k8s_openapi::api::core::v1::{
    Container, KeyToPath, Pod, PodSpec, PodStatus, ProjectedVolumeSource,
    ServiceAccountTokenProjection, Toleration, Volume, VolumeMount, VolumeProjection,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use uuid::Uuid;

/// The current time with the precision of the API.
pub(crate) fn now() -> Time {
    Time(Timestamp::from_second(Timestamp::now().as_second()).unwrap_or(Timestamp::UNIX_EPOCH))
}

/// Turns a request's pod into the object that is stored.
pub(crate) fn apply_defaults(pod: &mut Pod, namespace: &str) {
    let metadata = &mut pod.metadata;
    if metadata.name.as_deref().unwrap_or_default().is_empty()
        && let Some(prefix) = &metadata.generate_name
    {
        metadata.name = Some(format!("{prefix}{}", &Uuid::new_v4().simple().to_string()[..5]));
    }
    metadata.namespace = Some(namespace.to_owned());
    metadata.uid = Some(Uuid::new_v4().to_string());
    metadata.creation_timestamp = Some(now());
    metadata.generation = Some(1);
    metadata.deletion_timestamp = None;
    metadata.deletion_grace_period_seconds = None;
    let spec = pod.spec.get_or_insert_default();
    fill_spec(spec);
    let qos_class = Some(quality_of_service(spec).to_owned());
    // A status in the request is ignored, because only the node sets it.
    pod.status =
        Some(PodStatus { phase: Some("Pending".to_owned()), qos_class, ..PodStatus::default() });
}

fn fill_spec(spec: &mut PodSpec) {
    fn default(field: &mut Option<String>, value: &str) {
        field.get_or_insert_with(|| value.to_owned());
    }
    default(&mut spec.restart_policy, "Always");
    default(&mut spec.dns_policy, "ClusterFirst");
    default(&mut spec.scheduler_name, "default-scheduler");
    default(&mut spec.service_account_name, "default");
    default(&mut spec.preemption_policy, "PreemptLowerPriority");
    spec.service_account = spec.service_account_name.clone();
    spec.termination_grace_period_seconds.get_or_insert(30);
    spec.enable_service_links.get_or_insert(true);
    spec.security_context.get_or_insert_default();
    spec.priority.get_or_insert(0);
    add_tolerations(spec);
    if spec.automount_service_account_token != Some(false) {
        mount_token(spec);
    }
    for container in spec.init_containers.iter_mut().flatten().chain(&mut spec.containers) {
        fill_container(container);
    }
    for empty in spec.volumes.iter_mut().flatten().filter_map(|volume| volume.empty_dir.as_mut()) {
        // An empty medium means the node's disk.
        empty.medium = empty.medium.take().filter(|medium| !medium.is_empty());
    }
}

fn fill_container(container: &mut Container) {
    let latest = container.image.as_deref().is_some_and(|image| {
        let name = image.rsplit('/').next().unwrap_or(image);
        !image.contains('@') && (!name.contains(':') || name.ends_with(":latest"))
    });
    let policy = if latest { "Always" } else { "IfNotPresent" };
    container.image_pull_policy.get_or_insert_with(|| policy.to_owned());
    container.termination_message_path.get_or_insert_with(|| "/dev/termination-log".to_owned());
    container.termination_message_policy.get_or_insert_with(|| "File".to_owned());
    let resources = container.resources.get_or_insert_default();
    if let Some(limits) = &resources.limits {
        let requests = resources.requests.get_or_insert_default();
        for (name, quantity) in limits {
            requests.entry(name.clone()).or_insert_with(|| quantity.clone());
        }
    }
}

fn add_tolerations(spec: &mut PodSpec) {
    let tolerations = spec.tolerations.get_or_insert_default();
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        if !tolerations.iter().any(|toleration| toleration.key.as_deref() == Some(key)) {
            tolerations.push(Toleration {
                key: Some(key.to_owned()),
                operator: Some("Exists".to_owned()),
                effect: Some("NoExecute".to_owned()),
                toleration_seconds: Some(300),
                value: None,
            });
        }
    }
}

/// Mounts the service account token, which a pod gets unless it opts out.
fn mount_token(spec: &mut PodSpec) {
    let name = format!("kube-api-access-{}", &Uuid::new_v4().simple().to_string()[..5]);
    let token = ServiceAccountTokenProjection {
        expiration_seconds: Some(3607),
        path: "token".to_owned(),
        ..ServiceAccountTokenProjection::default()
    };
    let sources = vec![
        VolumeProjection { service_account_token: Some(token), ..VolumeProjection::default() },
        VolumeProjection {
            config_map: Some(k8s_openapi::api::core::v1::ConfigMapProjection {
                name: "kube-root-ca.crt".to_owned(),
                items: Some(vec![KeyToPath {
                    key: "ca.crt".to_owned(),
                    path: "ca.crt".to_owned(),
                    ..KeyToPath::default()
                }]),
                optional: None,
            }),
            ..VolumeProjection::default()
        },
    ];
    let projected = ProjectedVolumeSource {
        default_mode: Some(420),
        sources: Some(sources),
        ..ProjectedVolumeSource::default()
    };
    spec.volumes.get_or_insert_default().push(Volume {
        name: name.clone(),
        projected: Some(projected),
        ..Volume::default()
    });
    for container in spec.init_containers.iter_mut().flatten().chain(&mut spec.containers) {
        container.volume_mounts.get_or_insert_default().push(VolumeMount {
            name: name.clone(),
            mount_path: "/var/run/secrets/kubernetes.io/serviceaccount".to_owned(),
            read_only: Some(true),
            ..VolumeMount::default()
        });
    }
}

/// The QoS class, which determines the order of evictions.
pub(crate) fn quality_of_service(spec: &PodSpec) -> &'static str {
    let containers = || spec.init_containers.iter().flatten().chain(&spec.containers);
    let says_anything = containers().any(|container| {
        let resources = container.resources.clone().unwrap_or_default();
        !resources.limits.unwrap_or_default().is_empty()
            || !resources.requests.unwrap_or_default().is_empty()
    });
    let is_guaranteed = containers().all(|container| {
        let resources = container.resources.clone().unwrap_or_default();
        let (limits, requests) =
            (resources.limits.unwrap_or_default(), resources.requests.unwrap_or_default());
        ["cpu", "memory"]
            .iter()
            .all(|name| limits.contains_key(*name) && limits.get(*name) == requests.get(*name))
    });
    match (says_anything, is_guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}
