//! Checks that an engine created the container as requested. An engine ignores fields that it does
//! not know.

use bollard::models::{ContainerCreateBody, ContainerInspectResponse, MountPoint};
use serde_json::{Map, Value};

/// Where the kernel cannot limit swap, an engine drops the limit with a warning. Then the measured
/// isolation has no swap limit, so it need not fail here.
const REPORTED_IN_ISOLATION: [&str; 1] = ["MemorySwap"];

/// The names of the requested fields that are missing or changed, and of mounts that were not
/// requested.
pub(super) fn find_weakened(
    requested: &ContainerCreateBody,
    found: &ContainerInspectResponse,
) -> Vec<String> {
    let mut requested = object(requested);
    let requested_host =
        requested.remove("HostConfig").map(|host| object(&host)).unwrap_or_default();
    let (created_host, created_config) = (object(&found.host_config), object(&found.config));
    let mut missing = Vec::new();
    for (key, value) in
        requested_host.iter().filter(|(key, _)| !REPORTED_IN_ISOLATION.contains(&key.as_str()))
    {
        if !same(value, created_host.get(key)) {
            missing.push(key.clone());
        }
    }
    for (key, value) in &requested {
        let found = created_config.get(key);
        let kept = match key.as_str() {
            // An image may add variables. They reach only the guest, which passes none to a script.
            "Env" => true,
            "Labels" => contains(found, value),
            _ => same(value, found),
        };
        if !kept {
            missing.push(key.clone());
        }
    }
    let volume = requested_host.get("Mounts").and_then(|mounts| mounts[0]["Source"].as_str());
    missing.extend(
        found.mounts.iter().flatten().filter(|mount| !is_ours(mount, volume)).map(describe),
    );
    missing
}

fn object(value: &impl serde::Serialize) -> Map<String, Value> {
    match serde_json::to_value(value) {
        Ok(Value::Object(map)) => map,
        _ => Map::new(),
    }
}

/// Compares two values. For an engine a missing value, false and empty are the same.
fn same(requested: &Value, found: Option<&Value>) -> bool {
    match (requested, found) {
        (requested, None | Some(Value::Null)) => is_unset(requested),
        (Value::Object(requested), Some(Value::Object(found))) => {
            requested.iter().all(|(key, value)| same(value, found.get(key)))
                && found.iter().all(|(key, value)| requested.contains_key(key) || is_unset(value))
        }
        (Value::Array(requested), Some(Value::Array(found))) => {
            requested.len() == found.len()
                && requested
                    .iter()
                    .zip(found)
                    .all(|(requested, found)| same(requested, Some(found)))
        }
        (requested, Some(found)) => requested == found || (is_unset(requested) && is_unset(found)),
    }
}

fn is_unset(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.values().all(is_unset),
        Value::Bool(true) => false,
    }
}

fn contains(found: Option<&Value>, wanted: &Value) -> bool {
    let wanted = wanted.as_object().into_iter().flatten();
    wanted.into_iter().all(|(key, value)| found.and_then(|found| found.get(key)) == Some(value))
}

fn is_ours(mount: &MountPoint, volume: Option<&str>) -> bool {
    match mount.typ.as_deref() {
        Some("tmpfs") => true,
        Some("volume") => mount.name.as_deref() == volume,
        _ => false,
    }
}

fn describe(mount: &MountPoint) -> String {
    format!("no mount at {}", mount.destination.as_deref().unwrap_or("an unknown path"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::docker::body::{ContainerSettings, sandbox};
    use crate::launcher::{Owner, Shape};
    use guest::jail::SandboxNetwork;
    use language::Language;

    fn requested() -> ContainerCreateBody {
        let shape = Shape {
            language: Language::Bash,
            image: None,
            memory_bytes: 1 << 26,
            cpu_millis: 1000,
            pids: 16,
            disk_bytes: 1 << 20,
            disk_inodes: 64,
        };
        let owner = Owner("me".to_owned());
        sandbox(
            &shape,
            &ContainerSettings {
                image_id: "sha256:x",
                volume: "v",
                runtime: None,
                owner: &owner,
                network: SandboxNetwork::Own,
                lease_until: 1,
            },
        )
    }

    /// The response of an engine that applied every field.
    fn faithful_response() -> Value {
        let mut config = serde_json::to_value(requested()).expect("JSON");
        let host = config.as_object_mut().expect("an object").remove("HostConfig");
        json!({"Config": config, "HostConfig": host, "Mounts": [{"Type": "volume", "Name": "v", "Destination": "/skillbox"}]})
    }

    fn find_weakened_in(found: Value) -> Vec<String> {
        find_weakened(&requested(), &serde_json::from_value(found).expect("an answer"))
    }

    #[test]
    fn a_faithful_engine_passes() {
        assert_eq!(find_weakened_in(faithful_response()), Vec::<String>::new());
    }

    #[test]
    fn every_dropped_field_is_reported() {
        let host = faithful_response()["HostConfig"].as_object().expect("an object").clone();
        for (key, value) in host.iter().filter(|(_, value)| !is_unset(value)) {
            let mut found = faithful_response();
            found["HostConfig"].as_object_mut().expect("an object").remove(key);
            let expected = if REPORTED_IN_ISOLATION.contains(&key.as_str()) {
                vec![]
            } else {
                vec![key.clone()]
            };
            assert_eq!(find_weakened_in(found), expected, "{value}");
        }
    }

    #[test]
    fn additions_and_weakened_values_are_reported() {
        let changes = [
            ("/HostConfig/Privileged", json!(true), "Privileged"),
            ("/HostConfig/CapAdd", json!(["SYS_ADMIN"]), "CapAdd"),
            ("/HostConfig/Binds", json!(["/:/host"]), "Binds"),
            ("/HostConfig/NetworkMode", json!("bridge"), "NetworkMode"),
            ("/HostConfig/SecurityOpt", json!(["no-new-privileges"]), "SecurityOpt"),
            ("/HostConfig/PidsLimit", json!(null), "PidsLimit"),
            ("/HostConfig/Tmpfs", json!({"/tmp": ""}), "Tmpfs"),
            ("/Config/User", json!("0:0"), "User"),
            ("/Config/Labels", json!({}), "Labels"),
            ("/Mounts/0/Name", json!("another"), "no mount at /skillbox"),
            ("/Mounts/0/Type", json!("bind"), "no mount at /skillbox"),
        ];
        for (place, value, named) in changes {
            let mut found = faithful_response();
            *found.pointer_mut(place).expect("it is there") = value;
            assert_eq!(find_weakened_in(found), [named]);
        }
    }
}
