//! Reads the permissions of a manifest in all supported forms.

use serde_json::Value;

use super::{EgressRule, Permissions};

impl From<Value> for Permissions {
    fn from(value: Value) -> Self {
        let mut permissions = Self::default();
        match value {
            Value::Object(map) => {
                for (name, value) in map {
                    permissions.set_part_of(&name, value);
                }
            }
            Value::Array(names) => {
                for name in names {
                    let key = name.as_str().map_or_else(|| name.to_string(), str::to_owned);
                    permissions.unknown.insert(key, Value::Bool(true));
                }
            }
            Value::Null => {}
            other => {
                let key = other.as_str().map_or_else(|| other.to_string(), str::to_owned);
                permissions.unknown.insert(key, Value::Bool(true));
            }
        }
        permissions
    }
}

impl Permissions {
    fn set_part_of(&mut self, name: &str, value: Value) {
        let parts = match (name, value) {
            (_, Value::Null) => return,
            ("network" | "filesystem" | "env_vars" | "syscalls", Value::Object(parts)) => parts,
            (_, other) => {
                self.unknown.insert(name.to_owned(), other);
                return;
            }
        };
        for (part, value) in parts {
            if !self.set_value(name, &part, &value) {
                self.unknown.insert(format!("{name}.{part}"), value);
            }
        }
    }

    fn set_value(&mut self, name: &str, part: &str, value: &Value) -> bool {
        fn put<T>(slot: &mut Option<T>, read: Option<T>) -> bool {
            let is_valid = read.is_some();
            *slot = read;
            is_valid
        }
        match (name, part) {
            (_, _) if value.is_null() => true,
            ("network", "egress") => {
                let rules =
                    value.as_array().and_then(|items| items.iter().map(EgressRule::read).collect());
                put(&mut self.network.egress, rules)
            }
            ("filesystem", "read") => put(&mut self.filesystem.read, read_texts(value)),
            ("filesystem", "write") => put(&mut self.filesystem.write, read_texts(value)),
            ("env_vars", "allow") => put(&mut self.env_vars.allow, read_texts(value)),
            ("syscalls", "profile") => {
                put(&mut self.syscalls.profile, value.as_str().map(str::to_owned))
            }
            _ => false,
        }
    }
}

fn read_texts(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::String(text) => Some(vec![text.clone()]),
        Value::Array(items) => items.iter().map(|item| item.as_str().map(str::to_owned)).collect(),
        _ => None,
    }
}

fn read_ports(value: &Value) -> Option<Vec<u16>> {
    let port = |value: &Value| match value {
        Value::String(text) => text.parse().ok(),
        other => other.as_u64().and_then(|port| u16::try_from(port).ok()),
    };
    match value {
        Value::Array(items) => items.iter().map(port).collect(),
        one => port(one).map(|port| vec![port]),
    }
}

impl EgressRule {
    /// An entry of the list: a mapping, or a host with or without a port.
    fn read(value: &Value) -> Option<Self> {
        if let Value::String(text) = value {
            let (domain, ports) = match text.rsplit_once(':') {
                Some((domain, port)) if !domain.contains(':') => (domain, vec![port.parse().ok()?]),
                _ => (text.as_str(), Vec::new()),
            };
            return Some(Self { domain: domain.to_owned(), ports })
                .filter(|egress| !egress.domain.is_empty());
        }
        let entry = value.as_object()?;
        let supported = ["domain", "ports", "protocol"];
        let domain = entry.get("domain")?.as_str().filter(|domain| !domain.is_empty())?.to_owned();
        let protocol = entry.get("protocol").is_none_or(|protocol| protocol == "tcp");
        if !protocol || entry.keys().any(|key| !supported.contains(&key.as_str())) {
            return None;
        }
        let ports = entry.get("ports").map(read_ports).unwrap_or_else(|| Some(Vec::new()))?;
        Some(Self { domain, ports })
    }
}
