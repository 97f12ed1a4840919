//! What a container may be: every value of a create body, checked.
//!
//! Pure. The questions that need the engine, whose the volume is and which image an id names, are
//! asked afterwards.

mod filesystem;
mod limits;
mod process;

use crate::config::Policy;
use crate::container::{Container, HostConfig};
use crate::labels;
use crate::refusal::{Checked, forbidden};

pub use filesystem::{fills, guest_volumes};

/// Checks the whole body.
pub fn check(container: &Container, policy: &Policy) -> Checked {
    let Some(host) = &container.host_config else {
        return forbidden("a container without HostConfig");
    };
    let Some(labels) = container.labels.as_ref().filter(|labels| !labels.is_empty()) else {
        return forbidden("a container without labels, which nobody could sweep");
    };
    labels::check(labels)?;
    process::check(container, host, policy)?;
    isolation(host, policy)?;
    limits::check(host, policy)?;
    filesystem::check(host, policy)
}

/// What keeps the container apart from the host and from others.
fn isolation(host: &HostConfig, policy: &Policy) -> Checked {
    if host.privileged == Some(true) {
        return forbidden("Privileged");
    }
    if host.cap_add.as_ref().is_some_and(|added| !added.is_empty()) {
        return forbidden("CapAdd");
    }
    if host.cap_drop.as_deref() != Some(&["ALL".to_owned()]) {
        return forbidden("CapDrop other than ALL");
    }
    if host.network_mode.as_deref() != Some("none") {
        return forbidden("NetworkMode other than none");
    }
    for (name, mode, allowed) in [
        ("PidMode", &host.pid_mode, ["", ""]),
        ("UTSMode", &host.uts_mode, ["", ""]),
        ("UsernsMode", &host.userns_mode, ["", ""]),
        ("IpcMode", &host.ipc_mode, ["none", "private"]),
        ("CgroupnsMode", &host.cgroupns_mode, ["private", "private"]),
    ] {
        if mode.as_deref().is_some_and(|mode| !allowed.contains(&mode)) {
            return forbidden(format!("{name} {mode:?}"));
        }
    }
    // The engine's own default is the host's on cgroup v1.
    if host.cgroupns_mode.is_none() {
        return forbidden("CgroupnsMode other than private");
    }
    security_options(host, policy)?;
    match &host.runtime {
        Some(runtime) if !policy.runtimes.contains(runtime) => {
            forbidden(format!("the runtime {runtime:?}; add it with --runtime"))
        }
        _ => Ok(()),
    }
}

/// No new privileges, one profile that we know, and nothing else.
fn security_options(host: &HostConfig, policy: &Policy) -> Checked {
    let options = host.security_opt.as_deref().unwrap_or_default();
    let (profiles, others): (Vec<_>, Vec<_>) =
        options.iter().partition(|option| option.starts_with("seccomp="));
    if others.len() != 1
        || !matches!(
            others[0].as_str(),
            "no-new-privileges" | "no-new-privileges:true" | "no-new-privileges=true"
        )
    {
        return forbidden("SecurityOpt other than no-new-privileges and seccomp");
    }
    let [profile] = profiles.as_slice() else {
        return forbidden("SecurityOpt without exactly one seccomp profile");
    };
    let profile = &profile["seccomp=".len()..];
    if policy.seccomp.iter().any(|known| known == profile) {
        return Ok(());
    }
    forbidden(
        "a seccomp profile that is not this version's; run proxy and server from the same version",
    )
}
