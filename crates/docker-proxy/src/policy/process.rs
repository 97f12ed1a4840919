//! What runs in the container and as whom.

use super::filesystem;
use crate::config::Policy;
use crate::container::{Container, HostConfig};
use crate::names;
use crate::refusal::{Checked, forbidden};

const MOST_WORDS: usize = 128;
const LONGEST_WORD: usize = 4096;

pub fn check(container: &Container, host: &HostConfig, policy: &Policy) -> Checked {
    if filesystem::fills(host) {
        filler(container, policy)?
    } else {
        user(container.user.as_deref())?
    }
    for (name, words) in
        [("Entrypoint", &container.entrypoint), ("Cmd", &container.cmd), ("Env", &container.env)]
    {
        let words = words.as_deref().unwrap_or_default();
        let odd = |word: &String| word.len() > LONGEST_WORD || word.chars().any(|c| c == '\0');
        if words.len() > MOST_WORDS || words.iter().any(odd) {
            return forbidden(format!("{name} with too many or too long or odd words"));
        }
    }
    // The runtime makes a missing directory, as root and also inside a volume, and enters one that
    // leads out of the container by a descriptor it has open (`/proc/self/fd/…`). Without any, the
    // image chooses.
    if !policy.working_dirs.iter().any(|allowed| container.working_dir.as_ref() == Some(allowed)) {
        return forbidden(format!("WorkingDir other than {}", policy.working_dirs.join(", ")));
    }
    for (name, text) in [("Hostname", &container.hostname), ("Domainname", &container.domainname)] {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.".contains(&byte);
        if text
            .as_ref()
            .is_some_and(|text| text.len() > 128 || !text.bytes().all(plain) || text.contains(".."))
        {
            return forbidden(format!("an odd {name}"));
        }
    }
    lifetime(container, host)
}

/// Numbers only: a name would be looked up in the image's own list of users.
fn user(user: Option<&str>) -> Checked {
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

/// The one container that is root, because a new volume belongs to root, runs one known program and
/// no other.
fn filler(container: &Container, policy: &Policy) -> Checked {
    let said = container.entrypoint.as_deref().unwrap_or_default();
    let arguments =
        said.strip_prefix(policy.filler.as_slice()).filter(|_| !policy.filler.is_empty());
    let known = match arguments {
        Some([name, size, digest]) => {
            fill_size(size, policy)?;
            is_temporary(name) && names::is_id(digest)
        }
        _ => false,
    };
    let bare = |words: &Option<Vec<String>>| words.as_ref().is_none_or(|words| words.is_empty());
    if known
        && bare(&container.cmd)
        && bare(&container.env)
        && container.user.as_deref() == Some("0:0")
    {
        return Ok(());
    }
    forbidden("a volume that can be written by anything but the program that fills it")
}

/// How much it reads into the volume, which lies on the host's disk.
fn fill_size(size: &str, policy: &Policy) -> Checked {
    let digits = size.bytes().all(|byte| byte.is_ascii_digit());
    match size
        .parse::<i64>()
        .ok()
        .filter(|bytes| digits && (1..=policy.max_guest_bytes).contains(bytes))
    {
        Some(_) => Ok(()),
        None => forbidden(format!(
            "a program of {size:?} bytes; at most {} are put into a volume",
            policy.max_guest_bytes
        )),
    }
}

/// A name that the next filler takes for what a killed one has left, and removes.
fn is_temporary(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    name.len() <= 128 && name.starts_with("skillbox-fill-") && name.bytes().all(plain)
}

/// Nothing that the engine would do later on its own: restart it, run health checks in it, keep
/// what it says.
fn lifetime(container: &Container, host: &HostConfig) -> Checked {
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
        return forbidden("Init; the guest is its own");
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
