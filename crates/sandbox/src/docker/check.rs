//! Whether an engine made what it was asked for. One that does not know a field drops it and says
//! nothing.

use bollard::models::{ContainerCreateBody, ContainerInspectResponse, MountPoint};
use serde_json::{Map, Value};

/// Where the kernel cannot limit swap, an engine drops the limit with a warning; then `isolation`
/// says so.
const REPORTED_INSTEAD: [&str; 1] = ["MemorySwap"];

/// The names of everything that was asked for and is not there, and of mounts that nobody asked
/// for.
pub fn weakened(asked: &ContainerCreateBody, found: &ContainerInspectResponse) -> Vec<String> {
    let mut asked = object(asked);
    let asked_host = asked.remove("HostConfig").map(|host| object(&host)).unwrap_or_default();
    let (found_host, found_config) = (object(&found.host_config), object(&found.config));
    let mut missing = Vec::new();
    for (key, value) in
        asked_host.iter().filter(|(key, _)| !REPORTED_INSTEAD.contains(&key.as_str()))
    {
        if !same(value, found_host.get(key)) {
            missing.push(key.clone());
        }
    }
    for (key, value) in &asked {
        let found = found_config.get(key);
        let kept = match key.as_str() {
            // An image may bring more of these; none of them reaches a script.
            "Env" => true,
            "Labels" => contains(found, value),
            _ => same(value, found),
        };
        if !kept {
            missing.push(key.clone());
        }
    }
    let volume = asked_host.get("Mounts").and_then(|mounts| mounts[0]["Source"].as_str());
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

/// Nothing, false and empty are the same to an engine.
fn same(asked: &Value, found: Option<&Value>) -> bool {
    match (asked, found) {
        (asked, None | Some(Value::Null)) => is_nothing(asked),
        (Value::Object(asked), Some(Value::Object(found))) => {
            asked.iter().all(|(key, value)| same(value, found.get(key)))
                && found.iter().all(|(key, value)| asked.contains_key(key) || is_nothing(value))
        }
        (Value::Array(asked), Some(Value::Array(found))) => {
            asked.len() == found.len()
                && asked.iter().zip(found).all(|(asked, found)| same(asked, Some(found)))
        }
        (asked, Some(found)) => asked == found || (is_nothing(asked) && is_nothing(found)),
    }
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.values().all(is_nothing),
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
    format!("no mount at {}", mount.destination.as_deref().unwrap_or("an unknown place"))
}

#[cfg(test)]
mod tests {
    use language::Language;
    use serde_json::json;

    use super::*;
    use crate::docker::body::{Setting, sandbox};
    use crate::launcher::{Owner, Shape};
    use guest::jail::SandboxNetwork;

    fn asked() -> ContainerCreateBody {
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
            &Setting {
                image_id: "sha256:x",
                volume: "v",
                runtime: None,
                owner: &owner,
                network: SandboxNetwork::Own,
                lease_until: 1,
            },
        )
    }

    /// What an engine says that did all of it.
    fn faithful() -> Value {
        let mut config = serde_json::to_value(asked()).expect("JSON");
        let host = config.as_object_mut().expect("an object").remove("HostConfig");
        json!({"Config": config, "HostConfig": host, "Mounts": [{"Type": "volume", "Name": "v", "Destination": "/skillbox"}]})
    }

    fn judged(found: Value) -> Vec<String> {
        weakened(&asked(), &serde_json::from_value(found).expect("an answer"))
    }

    #[test]
    fn an_engine_that_did_everything_passes() {
        assert_eq!(judged(faithful()), Vec::<String>::new());
    }

    #[test]
    fn every_field_of_ours_that_is_dropped_is_named() {
        let host = faithful()["HostConfig"].as_object().expect("an object").clone();
        for (key, value) in host.iter().filter(|(_, value)| !is_nothing(value)) {
            let mut found = faithful();
            found["HostConfig"].as_object_mut().expect("an object").remove(key);
            let expected =
                if REPORTED_INSTEAD.contains(&key.as_str()) { vec![] } else { vec![key.clone()] };
            assert_eq!(judged(found), expected, "{value}");
        }
    }

    #[test]
    fn what_was_added_or_loosened_is_named() {
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
            let mut found = faithful();
            *found.pointer_mut(place).expect("it is there") = value;
            assert_eq!(judged(found), [named]);
        }
    }
}
