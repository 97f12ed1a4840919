//! Whether the API server made what it was asked for. Admission may change a pod, and an old server
//! drops the fields that it does not know.

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Map, Value};

/// What a cluster adds to every pod, by the name of the field, and that gives a script nothing.
const ADDED_TO_POD: [&str; 14] = [
    "nodeName", "schedulerName", "priority", "priorityClassName", "preemptionPolicy",
    "serviceAccount", "serviceAccountName", "imagePullSecrets", "tolerations", "overhead",
    "nodeSelector", "affinity", "topologySpreadConstraints", "schedulingGates",
];

/// The same of each container.
const ADDED_TO_CONTAINER: [&str; 3] =
    ["terminationMessagePath", "terminationMessagePolicy", "imagePullPolicy"];

/// Where a pod is placed, and by what of its own: more of it than we asked for is the operator's
/// business.
const PLACING: [&str; 2] = ["tolerations", "nodeSelector"];

/// What is on where nobody says otherwise, so that a `false` that was dropped is not the same as
/// one that was kept.
const ON_BY_DEFAULT: [&str; 4] =
    ["automountServiceAccountToken", "enableServiceLinks", "hostUsers", "allowPrivilegeEscalation"];

/// The places of everything that was asked for and is not there, and of what nobody asked for.
pub fn weakened(asked: &Pod, found: &Pod) -> Vec<String> {
    let (asked_spec, found_spec) = (object(&asked.spec), object(&found.spec));
    let mut missing = Vec::new();
    for (key, value) in asked_spec.iter().filter(|(key, _)| !PLACING.contains(&key.as_str())) {
        compare(value, found_spec.get(key), key, &mut missing);
    }
    let added =
        |key: &&String| !asked_spec.contains_key(*key) && !ADDED_TO_POD.contains(&key.as_str());
    missing.extend(
        found_spec.keys().filter(added).filter(|key| !is_nothing(&found_spec[*key])).cloned(),
    );
    let (labels, kept) = (asked.metadata.labels.iter().flatten(), found.metadata.labels.as_ref());
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

/// Nothing, false and empty are the same to an API server.
fn compare(asked: &Value, found: Option<&Value>, at: &str, missing: &mut Vec<String>) {
    match (asked, found) {
        (Value::Object(asked), Some(Value::Object(found))) => {
            for (key, value) in asked {
                compare(value, found.get(key), &format!("{at}.{key}"), missing);
            }
            let added = |key: &&String| {
                !asked.contains_key(*key) && !ADDED_TO_CONTAINER.contains(&key.as_str())
            };
            let added = found.keys().filter(added).filter(|key| !is_nothing(&found[*key]));
            missing.extend(added.map(|key| format!("{at}.{key}")));
        }
        (Value::Array(asked), Some(Value::Array(found))) if asked.len() == found.len() => {
            for (index, (asked, found)) in asked.iter().zip(found).enumerate() {
                compare(asked, Some(found), &format!("{at}[{index}]"), missing);
            }
        }
        (asked, found) => {
            let found = found.unwrap_or(&Value::Null);
            let both_nothing = is_nothing(asked)
                && is_nothing(found)
                && !ON_BY_DEFAULT.iter().any(|on| at.ends_with(on));
            if asked != found && !both_nothing && !same_amount(asked, found) {
                missing.push(at.to_owned());
            }
        }
    }
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => false,
        // Not 0: a deadline or a user of 0 is not the absence of one.
        Value::Number(_) => false,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.values().all(is_nothing),
    }
}

/// `67108864` and `64Mi` are one amount, and an API server writes it as it likes.
fn same_amount(one: &Value, other: &Value) -> bool {
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
    use crate::kubernetes::body::tests::{setting, shape};
    use crate::launcher::Owner;

    fn asked() -> Pod {
        sandbox(&shape(), &setting(&Owner("me".to_owned())))
    }

    /// What a real API server answers: everything, and what it adds itself.
    fn faithful() -> Value {
        let mut pod = serde_json::to_value(asked()).expect("JSON");
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

    fn judged(found: Value) -> Vec<String> {
        weakened(&asked(), &serde_json::from_value(found).expect("a pod"))
    }

    #[test]
    fn a_server_that_did_everything_passes() {
        assert_eq!(judged(faithful()), Vec::<String>::new());
    }

    #[test]
    fn every_field_of_ours_that_is_dropped_is_named() {
        let spec = faithful()["spec"].as_object().expect("an object").clone();
        let ours = object(&asked().spec);
        let relied_on = |key: &String| ours.contains_key(key) && !PLACING.contains(&key.as_str());
        for key in spec
            .keys()
            .filter(|key| relied_on(key) && !is_nothing(&spec[*key]) && *key != "containers")
        {
            let mut found = faithful();
            found["spec"].as_object_mut().expect("an object").remove(key);
            assert_eq!(
                judged(found).first().map(|named| named.starts_with(key.as_str())),
                Some(true),
                "{key}"
            );
        }
    }

    #[test]
    fn what_was_added_or_loosened_is_named() {
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
            let mut found = faithful();
            let (parent, key) = place.rsplit_once('/').expect("a path");
            found.pointer_mut(parent).expect("it is there")[key] = value;
            assert_eq!(judged(found), [named], "{place}");
        }
        // A second container beside ours, as a mesh would add it.
        let mut found = faithful();
        let sidecar = json!({ "name": "proxy", "image": "mesh" });
        found["spec"]["containers"].as_array_mut().expect("a list").push(sidecar);
        assert_eq!(judged(found), ["containers"]);
    }

    #[test]
    fn amounts_are_compared_by_value() {
        let same = |one: &str, other: &str| same_amount(&json!(one), &json!(other));
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
