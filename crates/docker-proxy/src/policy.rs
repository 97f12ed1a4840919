//! The checks of every value in a create body.
//!
//! They are pure. The checks that need the engine (the owner of the volume, the image of an id)
//! come afterwards.

mod filesystem;
mod limits;
mod process;

use crate::config::ContainerPolicy;
use crate::container::{ContainerBody, HostConfig};
use crate::labels;
use crate::request_error::{RequestResult, forbidden};

pub(crate) use filesystem::{guest_volumes, is_filler};

/// Checks the whole body.
pub(crate) fn check(container: &ContainerBody, policy: &ContainerPolicy) -> RequestResult {
    let Some(host) = &container.host_config else {
        return forbidden("a container without HostConfig");
    };
    let Some(labels) = container.labels.as_ref().filter(|labels| !labels.is_empty()) else {
        return forbidden("a container without labels, which no sweep would find");
    };
    labels::check(labels)?;
    process::check(container, host, policy)?;
    isolation(host, policy)?;
    limits::check(host, policy)?;
    filesystem::check(host, policy)
}

/// The isolation of the container from the host and from other containers.
fn isolation(host: &HostConfig, policy: &ContainerPolicy) -> RequestResult {
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
    // On cgroup v1 the engine's default is the host's namespace.
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

/// Exactly `no-new-privileges` and one allowed seccomp profile. Every other option is rejected:
/// several of them switch off a protection.
fn security_options(host: &HostConfig, policy: &ContainerPolicy) -> RequestResult {
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
    if policy.seccomp.iter().any(|allowed| allowed == profile) {
        return Ok(());
    }
    forbidden(
        "a seccomp profile that is not this version's; run proxy and server from the same version",
    )
}
