//! The permissions that a skill requests, and which of them can be granted.
//!
//! Reading never fails: an unknown entry is kept under its name and cannot be granted. The runner
//! rejects a run by these names, so that no request is silently dropped.

mod intersection;
mod reading;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::printable;

/// The requested permissions. `None` means that the skill does not mention that part.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Value")]
pub struct Permissions {
    #[serde(skip_serializing_if = "NetworkPermissions::is_unset")]
    pub network: NetworkPermissions,
    #[serde(skip_serializing_if = "FilesystemPermissions::is_unset")]
    pub filesystem: FilesystemPermissions,
    #[serde(skip_serializing_if = "EnvVarPermissions::is_unset")]
    pub env_vars: EnvVarPermissions,
    #[serde(skip_serializing_if = "SyscallPermissions::is_unset")]
    pub syscalls: SyscallPermissions,
    /// Unknown names and forms, as written.
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct NetworkPermissions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub egress: Option<Vec<EgressRule>>,
}

/// One host that a skill requests to connect to; without ports, on any port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EgressRule {
    pub domain: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<u16>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct FilesystemPermissions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write: Option<Vec<String>>,
}

/// The variables that callers may set, if the skill limits them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct EnvVarPermissions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow: Option<Vec<String>>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct SyscallPermissions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
}

/// Directories that scripts can write in every sandbox.
const WRITABLE: [&str; 4] = ["/sandbox", "/workspace", "/tmp", "/dev/shm"];
/// Further directories that scripts can read in every sandbox.
const READABLE: [&str; 5] = ["/skills", "/usr", "/bin", "/lib", "/lib64"];
/// Every sandbox has a loopback interface.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "::1"];
/// The only system call profile.
const DEFAULT_SYSCALL_PROFILE: &str = "default";

impl Permissions {
    /// Descriptions of the requests that no sandbox grants. A skill with any of them is not run.
    pub fn list_refused(&self) -> Vec<String> {
        let mut refused = Vec::new();
        for egress in self.network.egress.iter().flatten().filter(|egress| !egress.is_loopback()) {
            refused.push(format!("network egress to {}", egress.describe()));
        }
        let outside = |paths: &Option<Vec<String>>, granted: &[&str]| -> Vec<String> {
            let wanted = paths.iter().flatten().filter(|path| !is_within_any(path, granted));
            wanted.map(|path| printable(path)).collect()
        };
        let readable = [&WRITABLE[..], &READABLE[..]].concat();
        refused.extend(
            outside(&self.filesystem.read, &readable).iter().map(|path| format!("reading {path}")),
        );
        refused.extend(
            outside(&self.filesystem.write, &WRITABLE).iter().map(|path| format!("writing {path}")),
        );
        if let Some(profile) =
            self.syscalls.profile.as_deref().filter(|profile| *profile != DEFAULT_SYSCALL_PROFILE)
        {
            refused.push(format!("the system call profile {}", printable(profile)));
        }
        refused
            .extend(self.unknown_names().map(|name| format!("the permission {}", printable(name))));
        refused
    }

    /// The names in `unknown` that request something.
    pub fn unknown_names(&self) -> impl Iterator<Item = &str> {
        self.unknown
            .iter()
            .filter(|(_, value)| requests_something(value))
            .map(|(name, _)| name.as_str())
    }

    /// Whether a caller may set this variable.
    pub fn allows_env(&self, name: &str) -> bool {
        self.env_vars.allow.as_ref().is_none_or(|allowed| allowed.iter().any(|one| one == name))
    }
}

impl NetworkPermissions {
    fn is_unset(&self) -> bool {
        self.egress.is_none()
    }
}

impl FilesystemPermissions {
    fn is_unset(&self) -> bool {
        self.read.is_none() && self.write.is_none()
    }
}

impl EnvVarPermissions {
    fn is_unset(&self) -> bool {
        self.allow.is_none()
    }
}

impl SyscallPermissions {
    fn is_unset(&self) -> bool {
        self.profile.is_none()
    }
}

impl EgressRule {
    fn is_loopback(&self) -> bool {
        LOOPBACK.contains(&self.domain.as_str())
    }

    fn describe(&self) -> String {
        let ports: Vec<String> = self.ports.iter().map(u16::to_string).collect();
        let domain = printable(&self.domain);
        if ports.is_empty() { domain } else { format!("{domain}:{}", ports.join(",")) }
    }
}

/// Whether an unknown entry requests anything: `false`, null, empty and `none` do not.
fn requests_something(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !matches!(text.as_str(), "" | "none" | "false"),
        Value::Array(items) => items.iter().any(requests_something),
        Value::Object(entries) => entries.values().any(requests_something),
        _ => true,
    }
}

/// Whether a path is inside one of the directories, by whole components. Relative paths are inside
/// the skill.
fn is_within_any(path: &str, places: &[&str]) -> bool {
    let plain = !path.split('/').any(|part| part == "..");
    let relative = !path.starts_with(['/', '~', '$', '%', '\\']);
    plain && (relative || places.iter().any(|place| is_within(path, place)))
}

fn is_within(path: &str, place: &str) -> bool {
    path.strip_prefix(place)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || place.ends_with('/'))
}

#[cfg(test)]
mod tests;
