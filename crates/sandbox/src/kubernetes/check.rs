//! Checks that the API server created the pod as requested. Admission plugins may change a pod, and
//! an old server drops fields that it does not know.

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Map, Value};

/// Fields that a cluster adds to every pod and that give a script no access.
const POD_FIELDS_SET_BY_CLUSTER: [&str; 14] = [
    "nodeName", "schedulerName", "priority", "priorityClassName", "preemptionPolicy",
    "serviceAccount", "serviceAccountName", "imagePullSecrets", "tolerations", "overhead",
    "nodeSelector", "affinity", "topologySpreadConstraints", "schedulingGates",
];

/// The same for each container.
const CONTAINER_FIELDS_SET_BY_CLUSTER: [&str; 3] =
    ["terminationMessagePath", "terminationMessagePolicy", "imagePullPolicy"];

/// Fields that control scheduling. The operator's admission plugins may add to them.
const SCHEDULING_FIELDS: [&str; 2] = ["tolerations", "nodeSelector"];

/// Fields whose default is true: if a requested `false` is missing from the response, it was
/// dropped.
const TRUE_BY_DEFAULT: [&str; 4] =
    ["automountServiceAccountToken", "enableServiceLinks", "hostUsers", "allowPrivilegeEscalation"];

/// The paths of the requested fields that are missing or changed, and of fields that were not
/// requested.
pub(super) fn find_weakened(requested: &Pod, found: &Pod) -> Vec<String> {
    let (requested_spec, created_spec) = (object(&requested.spec), object(&found.spec));
    let mut missing = Vec::new();
    for (key, value) in
        requested_spec.iter().filter(|(key, _)| !SCHEDULING_FIELDS.contains(&key.as_str()))
    {
        compare(value, created_spec.get(key), key, &mut missing);
    }
    let added = |key: &&String| {
        !requested_spec.contains_key(*key) && !POD_FIELDS_SET_BY_CLUSTER.contains(&key.as_str())
    };
    missing.extend(
        created_spec.keys().filter(added).filter(|key| !is_unset(&created_spec[*key])).cloned(),
    );
    let (labels, kept) =
        (requested.metadata.labels.iter().flatten(), found.metadata.labels.as_ref());
    let lost = labels.filter(|(name, value)| kept.and_then(|kept| kept.get(*name)) != Some(*value));
    missing.extend(lost.map(|(name, _)| format!("label {name}")));
    missing
}

fn object(value: &impl serde::Serialize) -> Map<String, Value> {
    match serde_json::to_value(value) {
        Ok(Value::Object(map)) => map,
        _ => Map::new(),
    }
}

/// Compares two values and adds the paths that differ. For an API server a missing value, false and
/// empty are the same.
fn compare(requested: &Value, found: Option<&Value>, at: &str, missing: &mut Vec<String>) {
    match (requested, found) {
        (Value::Object(requested), Some(Value::Object(found))) => {
            for (key, value) in requested {
                compare(value, found.get(key), &format!("{at}.{key}"), missing);
            }
            let added = |key: &&String| {
                !requested.contains_key(*key)
                    && !CONTAINER_FIELDS_SET_BY_CLUSTER.contains(&key.as_str())
            };
            let added = found.keys().filter(added).filter(|key| !is_unset(&found[*key]));
            missing.extend(added.map(|key| format!("{at}.{key}")));
        }
        (Value::Array(requested), Some(Value::Array(found))) if requested.len() == found.len() => {
            for (index, (requested, found)) in requested.iter().zip(found).enumerate() {
                compare(requested, Some(found), &format!("{at}[{index}]"), missing);
            }
        }
        (requested, found) => {
            let found = found.unwrap_or(&Value::Null);
            let both_nothing = is_unset(requested)
                && is_unset(found)
                && !TRUE_BY_DEFAULT.iter().any(|on| at.ends_with(on));
            if requested != found && !both_nothing && !same_quantity(requested, found) {
                missing.push(at.to_owned());
            }
        }
    }
}

fn is_unset(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => false,
        // Also not 0: a deadline or user of 0 is a value.
        Value::Number(_) => false,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.values().all(is_unset),
    }
}

/// `67108864` and `64Mi` are the same quantity, and an API server may use either form.
fn same_quantity(one: &Value, other: &Value) -> bool {
    let amount = |value: &Value| thousandths(value.as_str()?);
    amount(one).is_some_and(|one| Some(one) == amount(other))
}

fn thousandths(text: &str) -> Option<u128> {
    const UNITS: [(&str, u128); 14] = [
        ("Ki", 1 << 10),
        ("Mi", 1 << 20),
        ("Gi", 1 << 30),
        ("Ti", 1 << 40),
        ("Pi", 1 << 50),
        ("Ei", 1 << 60),
        ("k", 1_000),
        ("M", 1_000_000),
        ("G", 1_000_000_000),
        ("T", 1_000_000_000_000),
        ("P", 1_000_000_000_000_000),
        ("E", 1_000_000_000_000_000_000),
        ("m", 0),
        ("", 1),
    ];
    let (number, unit) =
        UNITS.iter().find_map(|(suffix, unit)| Some((text.strip_suffix(suffix)?, *unit)))?;
    let number: u128 = number.parse().ok()?;
    Some(if unit == 0 { number } else { number * unit * 1000 })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kubernetes::body::sandbox;
    use crate::kubernetes::body::tests::{settings, shape};
    use crate::launcher::Owner;

    fn requested() -> Pod {
        sandbox(&shape(), &settings(&Owner("me".to_owned())))
    }

    /// The response of a real API server: all requested fields and its own additions.
    fn faithful_response() -> Value {
        let mut pod = serde_json::to_value(requested()).expect("JSON");
        let spec = pod["spec"].as_object_mut().expect("an object");
        spec.insert("schedulerName".to_owned(), json!("default-scheduler"));
        spec.insert("serviceAccountName".to_owned(), json!("default"));
        spec.insert("serviceAccount".to_owned(), json!("default"));
        spec.insert("priority".to_owned(), json!(0));
        spec["containers"][0]["terminationMessagePath"] = json!("/dev/termination-log");
        spec["containers"][0]["terminationMessagePolicy"] = json!("File");
        spec["containers"][0]["resources"]["limits"]["memory"] = json!("256Mi");
        spec["initContainers"][0]["terminationMessagePath"] = json!("/dev/termination-log");
        for key in ["hostNetwork", "hostPID", "hostIPC"] {
            spec.remove(key);
        }
        pod
    }

    fn find_weakened_in(found: Value) -> Vec<String> {
        find_weakened(&requested(), &serde_json::from_value(found).expect("a pod"))
    }

    #[test]
    fn a_faithful_server_passes() {
        assert_eq!(find_weakened_in(faithful_response()), Vec::<String>::new());
    }

    #[test]
    fn every_dropped_field_is_reported() {
        let spec = faithful_response()["spec"].as_object().expect("an object").clone();
        let ours = object(&requested().spec);
        let relied_on =
            |key: &String| ours.contains_key(key) && !SCHEDULING_FIELDS.contains(&key.as_str());
        for key in spec
            .keys()
            .filter(|key| relied_on(key) && !is_unset(&spec[*key]) && *key != "containers")
        {
            let mut found = faithful_response();
            found["spec"].as_object_mut().expect("an object").remove(key);
            assert_eq!(
                find_weakened_in(found).first().map(|named| named.starts_with(key.as_str())),
                Some(true),
                "{key}"
            );
        }
    }

    #[test]
    fn additions_and_weakened_values_are_reported() {
        let container = |key: &str| format!("/spec/containers/0/{key}");
        let changes = [
            ("/spec/hostNetwork".to_owned(), json!(true), "hostNetwork"),
            (
                "/spec/automountServiceAccountToken".to_owned(),
                json!(true),
                "automountServiceAccountToken",
            ),
            ("/spec/enableServiceLinks".to_owned(), json!(null), "enableServiceLinks"),
            ("/spec/activeDeadlineSeconds".to_owned(), json!(null), "activeDeadlineSeconds"),
            (
                "/spec/volumes/1/emptyDir/sizeLimit".to_owned(),
                json!("1Gi"),
                "volumes[1].emptyDir.sizeLimit",
            ),
            ("/spec/volumes".to_owned(), json!([]), "volumes"),
            (
                container("securityContext/allowPrivilegeEscalation"),
                json!(null),
                "containers[0].securityContext.allowPrivilegeEscalation",
            ),
            (
                container("securityContext/runAsUser"),
                json!(0),
                "containers[0].securityContext.runAsUser",
            ),
            (
                container("securityContext/capabilities/add"),
                json!(["NET_RAW"]),
                "containers[0].securityContext.capabilities.add",
            ),
            (
                container("resources/limits/memory"),
                json!("1Gi"),
                "containers[0].resources.limits.memory",
            ),
            (container("resources/limits/cpu"), json!("1"), "containers[0].resources.limits.cpu"),
            (container("image"), json!("other"), "containers[0].image"),
            (container("env"), json!([{ "name": "A", "value": "b" }]), "containers[0].env"),
            (
                "/spec/initContainers/0/command".to_owned(),
                json!(["sh"]),
                "initContainers[0].command",
            ),
            ("/metadata/labels/skillbox.owner".to_owned(), json!("you"), "label skillbox.owner"),
        ];
        for (place, value, named) in changes {
            let mut found = faithful_response();
            let (parent, key) = place.rsplit_once('/').expect("a path");
            found.pointer_mut(parent).expect("it is there")[key] = value;
            assert_eq!(find_weakened_in(found), [named], "{place}");
        }
        // A second container, as a service mesh would add it.
        let mut found = faithful_response();
        let sidecar = json!({ "name": "proxy", "image": "mesh" });
        found["spec"]["containers"].as_array_mut().expect("a list").push(sidecar);
        assert_eq!(find_weakened_in(found), ["containers"]);
    }

    #[test]
    fn quantities_are_compared_by_value() {
        let same = |one: &str, other: &str| same_quantity(&json!(one), &json!(other));
        assert!(
            same("67108864", "64Mi")
                && same("1500m", "1500m")
                && same("1000m", "1")
                && same("64000000", "64M")
        );
        assert!(
            !same("64Mi", "64M") && !same("1", "1m") && !same("x", "x") && !same("Never", "Always")
        );
    }
}
