//! The isolation of a sandbox: measured, not configured.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use guest::jail::SandboxNetwork;
use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};

use crate::launcher::LaunchError;

/// One mechanism that confines a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Control {
    UserNamespace,
    MountNamespace,
    PidNamespace,
    NetworkNamespace,
    IpcNamespace,
    UtsNamespace,
    CgroupNamespace,
    NoNewPrivileges,
    Capabilities,
    Seccomp,
    Landlock,
    ReadOnlyRoot,
    MemoryLimit,
    SwapLimit,
    ProcessLimit,
    CpuLimit,
    DiskLimit,
    UniqueUid,
    PrivateInodes,
}

impl Control {
    pub const ALL: [Control; 19] = [
        Control::UserNamespace,
        Control::MountNamespace,
        Control::PidNamespace,
        Control::NetworkNamespace,
        Control::IpcNamespace,
        Control::UtsNamespace,
        Control::CgroupNamespace,
        Control::NoNewPrivileges,
        Control::Capabilities,
        Control::Seccomp,
        Control::Landlock,
        Control::ReadOnlyRoot,
        Control::MemoryLimit,
        Control::SwapLimit,
        Control::ProcessLimit,
        Control::CpuLimit,
        Control::DiskLimit,
        Control::UniqueUid,
        Control::PrivateInodes,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Control::UserNamespace => "user_namespace",
            Control::MountNamespace => "mount_namespace",
            Control::PidNamespace => "pid_namespace",
            Control::NetworkNamespace => "network_namespace",
            Control::IpcNamespace => "ipc_namespace",
            Control::UtsNamespace => "uts_namespace",
            Control::CgroupNamespace => "cgroup_namespace",
            Control::NoNewPrivileges => "no_new_privileges",
            Control::Capabilities => "capabilities",
            Control::Seccomp => "seccomp",
            Control::Landlock => "landlock",
            Control::ReadOnlyRoot => "read_only_root",
            Control::MemoryLimit => "memory_limit",
            Control::SwapLimit => "swap_limit",
            Control::ProcessLimit => "process_limit",
            Control::CpuLimit => "cpu_limit",
            Control::DiskLimit => "disk_limit",
            Control::UniqueUid => "unique_uid",
            Control::PrivateInodes => "private_inodes",
        }
    }
}

impl fmt::Display for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Control {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Control::ALL.into_iter().find(|control| control.as_str() == name).ok_or_else(|| {
            let known: Vec<_> = Control::ALL.iter().map(|control| control.as_str()).collect();
            format!("unknown control {name:?}: expected one of {}", known.join(", "))
        })
    }
}

/// The controls in force in one sandbox, and how they are enforced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Isolation {
    pub backend: &'static str,
    /// The OCI runtime, if the backend uses one.
    pub runtime: Option<String>,
    /// The id of the image, if the backend uses one.
    pub image: Option<String>,
    /// The host's network is always shown explicitly.
    pub network: SandboxNetwork,
    /// Each control in force, with its mechanism, such as "cgroup v1" or "abi 7".
    pub controls: BTreeMap<Control, String>,
}

impl Isolation {
    /// The controls that are not in force.
    pub fn missing(&self) -> Vec<Control> {
        Control::ALL.into_iter().filter(|control| !self.controls.contains_key(control)).collect()
    }

    /// Returns an error if a required control is not in force.
    pub fn check(&self, require: &[Control]) -> Result<(), LaunchError> {
        let missing: Vec<_> = require
            .iter()
            .copied()
            .filter(|control| !self.controls.contains_key(control))
            .collect();
        if missing.is_empty() { Ok(()) } else { Err(LaunchError::Missing(missing)) }
    }
}

impl Serialize for Isolation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Isolation", 6)?;
        fields.serialize_field("backend", self.backend)?;
        if let Some(runtime) = &self.runtime {
            fields.serialize_field("runtime", runtime)?;
        }
        if let Some(image) = &self.image {
            fields.serialize_field("image", image)?;
        }
        if self.network == SandboxNetwork::Host {
            fields.serialize_field("network", "host")?;
        }
        fields.serialize_field("controls", &self.controls)?;
        fields.serialize_field("missing", &self.missing())?;
        fields.end()
    }
}
