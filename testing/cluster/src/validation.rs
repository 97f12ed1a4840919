//! Validation of pods before admission: the part of the real validation that matters for our pods.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};

use crate::quantity::amount;
use crate::status_error::StatusError;

/// Rejects the first invalid field.
pub(crate) fn check(pod: &Pod) -> Result<(), StatusError> {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let wrong = |field: &str, why: &str| Err(StatusError::invalid(name, field, why));
    if name.is_empty() {
        return wrong("metadata.name", "Required value: name or generateName is required");
    }
    if !is_subdomain(name) {
        return wrong(
            "metadata.name",
            "Invalid value: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
        );
    }
    for (key, value) in pod.metadata.labels.iter().flatten() {
        if !is_label(value)
            || !key.rsplit('/').next().is_some_and(|key| !key.is_empty() && is_label(key))
        {
            return wrong(
                "metadata.labels",
                &format!(
                    "Invalid value: {value:?}: a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
                ),
            );
        }
    }
    let Some(spec) = &pod.spec else { return wrong("spec", "Required value") };
    spec_is_sound(spec).or_else(|(field, why)| wrong(&field, &why))
}

type FieldError = (String, String);

fn spec_is_sound(spec: &PodSpec) -> Result<(), FieldError> {
    let wrong = |field: &str, why: &str| Err((format!("spec.{field}"), why.to_owned()));
    if spec.containers.is_empty() {
        return wrong("containers", "Required value");
    }
    if spec
        .active_deadline_seconds
        .is_some_and(|seconds| !(1..=i64::from(i32::MAX)).contains(&seconds))
    {
        return wrong(
            "activeDeadlineSeconds",
            "Invalid value: must be between 1 and 2147483647, inclusive",
        );
    }
    if spec.restart_policy.as_deref() != Some("Never") {
        // A real API server allows other policies. Our pods never use them, so it would be a bug.
        return wrong("restartPolicy", "Unsupported value: this stand-in runs no container twice");
    }
    let volumes: BTreeSet<_> =
        spec.volumes.iter().flatten().map(|volume| volume.name.as_str()).collect();
    if volumes.len() != spec.volumes.iter().flatten().count() {
        return wrong("volumes", "Duplicate value");
    }
    let mut names = BTreeSet::new();
    for (kind, container) in containers(spec) {
        if !names.insert(&container.name) || !is_dns_label(&container.name) {
            return wrong(&format!("{kind}.name"), &format!("Invalid value: {:?}", container.name));
        }
        container_is_sound(container, &volumes)
            .or_else(|(field, why)| wrong(&format!("{kind}.{field}"), &why))?;
    }
    Ok(())
}

fn container_is_sound(container: &Container, volumes: &BTreeSet<&str>) -> Result<(), FieldError> {
    let wrong = |field: &str, why: String| Err((field.to_owned(), why));
    if container.image.as_deref().unwrap_or_default().is_empty() {
        return wrong("image", "Required value".to_owned());
    }
    let mut paths = BTreeSet::new();
    for mount in container.volume_mounts.iter().flatten() {
        if !volumes.contains(mount.name.as_str()) {
            return wrong("volumeMounts.name", format!("Not found: {:?}", mount.name));
        }
        if !paths.insert(&mount.mount_path) {
            return wrong(
                "volumeMounts.mountPath",
                format!("Invalid value: {:?}: must be unique", mount.mount_path),
            );
        }
        let out = |path: &str| path.starts_with('/') || path.split('/').any(|part| part == "..");
        if mount.sub_path.as_deref().is_some_and(out) {
            return wrong(
                "volumeMounts.subPath",
                "Invalid value: must be a relative path".to_owned(),
            );
        }
    }
    let resources = container.resources.clone().unwrap_or_default();
    let limits = resources.limits.unwrap_or_default();
    for (name, request) in resources.requests.iter().flatten() {
        let Some(requested) = amount(request) else {
            return wrong("resources", format!("Invalid value: {:?}", request.0));
        };
        if limits.get(name).and_then(amount).is_some_and(|limit| requested > limit) {
            let why = format!(
                "Invalid value: {:?}: must be less than or equal to {name} limit",
                request.0
            );
            return wrong("resources.requests", why);
        }
    }
    Ok(())
}

fn containers(spec: &PodSpec) -> impl Iterator<Item = (&'static str, &Container)> {
    let init = spec.init_containers.iter().flatten().map(|container| ("initContainers", container));
    init.chain(spec.containers.iter().map(|container| ("containers", container)))
}

fn is_subdomain(name: &str) -> bool {
    name.len() <= 253 && name.split('.').all(is_dns_label)
}

fn is_dns_label(name: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let ends = name.bytes().next().is_some_and(letter) && name.bytes().last().is_some_and(letter);
    ends && name.len() <= 63 && name.bytes().all(|byte| letter(byte) || byte == b'-')
}

/// The value of a label, or the part of its name after the slash.
fn is_label(text: &str) -> bool {
    let alphanumeric = |byte: u8| byte.is_ascii_alphanumeric();
    let ends = text.bytes().next().is_none_or(alphanumeric)
        && text.bytes().last().is_none_or(alphanumeric);
    ends && text.len() <= 63
        && text.bytes().all(|byte| alphanumeric(byte) || b"-_.".contains(&byte))
}
