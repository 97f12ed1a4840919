//! The process in the container: its user, program and lifetime.

use super::filesystem;
use crate::config::ContainerPolicy;
use crate::container::{ContainerBody, HostConfig};
use crate::names;
use crate::request_error::{RequestResult, forbidden};

const MAX_ARGUMENTS: usize = 128;
const MAX_ARGUMENT_BYTES: usize = 4096;

pub(super) fn check(
    container: &ContainerBody,
    host: &HostConfig,
    policy: &ContainerPolicy,
) -> RequestResult {
    if filesystem::is_filler(host) {
        check_filler(container, policy)?
    } else {
        check_user(container.user.as_deref())?
    }
    for (name, arguments) in
        [("Entrypoint", &container.entrypoint), ("Cmd", &container.cmd), ("Env", &container.env)]
    {
        let arguments = arguments.as_deref().unwrap_or_default();
        let invalid =
            |text: &String| text.len() > MAX_ARGUMENT_BYTES || text.chars().any(|c| c == '\0');
        if arguments.len() > MAX_ARGUMENTS || arguments.iter().any(invalid) {
            return forbidden(format!("{name} with too many, too long or invalid strings"));
        }
    }
    // The OCI runtime creates a missing working directory as root, even inside a volume, and enters
    // one that leaves the container through a descriptor that it has open (`/proc/self/fd/…`, as in
    // CVE-2024-21626). A missing value is rejected too, because then the image chooses.
    if !policy.working_dirs.iter().any(|allowed| container.working_dir.as_ref() == Some(allowed)) {
        return forbidden(format!("WorkingDir other than {}", policy.working_dirs.join(", ")));
    }
    for (name, text) in [("Hostname", &container.hostname), ("Domainname", &container.domainname)] {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.".contains(&byte);
        if text.as_ref().is_some_and(|text| {
            text.len() > 128 || !text.bytes().all(is_allowed) || text.contains("..")
        }) {
            return forbidden(format!("an invalid {name}"));
        }
    }
    check_lifetime(container, host)
}

/// Accepts numbers only: a name would be resolved by the image's own list of users.
fn check_user(user: Option<&str>) -> RequestResult {
    let number = |text: &str| {
        text.parse::<u32>().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let ids = user
        .and_then(|user| user.split_once(':'))
        .map(|(user, group)| (number(user), number(group)));
    match ids {
        Some((Some(user), Some(group))) if user != 0 && group != 0 => Ok(()),
        _ => forbidden("User other than numbers that are not root's, as in 65534:65534"),
    }
}

/// The filler is the only container that is root, because a new volume belongs to root. It may run
/// only the configured program.
fn check_filler(container: &ContainerBody, policy: &ContainerPolicy) -> RequestResult {
    let entrypoint = container.entrypoint.as_deref().unwrap_or_default();
    let arguments =
        entrypoint.strip_prefix(policy.filler.as_slice()).filter(|_| !policy.filler.is_empty());
    let is_known = match arguments {
        Some([name, size, digest]) => {
            check_program_size(size, policy)?;
            is_temporary(name) && names::is_id(digest)
        }
        _ => false,
    };
    let is_empty = |list: &Option<Vec<String>>| list.as_ref().is_none_or(|list| list.is_empty());
    if is_known
        && is_empty(&container.cmd)
        && is_empty(&container.env)
        && container.user.as_deref() == Some("0:0")
    {
        return Ok(());
    }
    forbidden("a volume that is writable by another program than its filler")
}

/// Limits how much the filler writes to the volume, which is on the host's disk.
fn check_program_size(size: &str, policy: &ContainerPolicy) -> RequestResult {
    let digits = size.bytes().all(|byte| byte.is_ascii_digit());
    match size
        .parse::<i64>()
        .ok()
        .filter(|bytes| digits && (1..=policy.max_guest_bytes).contains(bytes))
    {
        Some(_) => Ok(()),
        None => forbidden(format!(
            "a program of {size:?} bytes; at most {} may be written to a volume",
            policy.max_guest_bytes
        )),
    }
}

/// A name that the next filler recognizes as a leftover of a killed one, and removes.
fn is_temporary(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    name.len() <= 128 && name.starts_with("skillbox-fill-") && name.bytes().all(is_allowed)
}

/// Rejects everything that the engine would do later on its own: restarts, health checks, logs.
fn check_lifetime(container: &ContainerBody, host: &HostConfig) -> RequestResult {
    if container.healthcheck.as_ref().is_some_and(|check| check.test != ["NONE"]) {
        return forbidden("Healthcheck other than NONE");
    }
    if host
        .restart_policy
        .as_ref()
        .is_some_and(|policy| policy.name != "no" || policy.maximum_retry_count.unwrap_or(0) != 0)
    {
        return forbidden("RestartPolicy other than no");
    }
    if container.tty == Some(true) {
        return forbidden("Tty");
    }
    if host.init == Some(true) {
        return forbidden("Init; the guest is its own init process");
    }
    if host.publish_all_ports == Some(true) {
        return forbidden("PublishAllPorts");
    }
    match &host.log_config {
        Some(log)
            if log.r#type == "none"
                && log.config.as_ref().is_none_or(|config| config.is_empty()) =>
        {
            Ok(())
        }
        _ => forbidden("LogConfig other than none"),
    }
}
