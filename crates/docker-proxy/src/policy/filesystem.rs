//! What the container sees of files: a root that cannot be written, bounded memory file systems,
//! one volume of ours.

use crate::config::Policy;
use crate::container::{HostConfig, Mount};
use crate::names;
use crate::refusal::{Checked, forbidden};

/// Where a memory file system may lie: nowhere that hides or replaces what the engine has set up.
const TMPFS: &[&str] = &["/dev/shm", "/sandbox", "/skills", "/tmp", "/workspace"];

/// Of what the engine hides and write-protects by itself, what kernels of today have. A list of
/// one's own replaces that, so it must have all of these; an empty one would uncover everything.
const HIDDEN: &[&str] = &[
    "/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/sched_debug", "/proc/scsi",
    "/proc/timer_list", "/sys/firmware",
];
const PROTECTED: &[&str] =
    &["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

pub fn check(host: &HostConfig, policy: &Policy) -> Checked {
    if host.readonly_rootfs != Some(true) {
        return forbidden("a root file system that can be written");
    }
    covers("MaskedPaths", host.masked_paths.as_ref(), None, HIDDEN)?;
    covers("ReadonlyPaths", host.readonly_paths.as_ref(), host.masked_paths.as_ref(), PROTECTED)?;
    for (path, options) in host.tmpfs.iter().flatten() {
        tmpfs(path, options, policy)?;
    }
    let mounts = host.mounts.as_deref().unwrap_or_default();
    if mounts.len() > 1 {
        return forbidden("more than one mount");
    }
    mounts.iter().try_for_each(mount)
}

/// Whether this is the container that fills the guest's volume, the only one that may write it.
pub fn fills(host: &HostConfig) -> bool {
    host.mounts.iter().flatten().any(|mount| mount.read_only != Some(true))
}

/// The volumes that it mounts.
pub fn guest_volumes(host: &HostConfig) -> impl Iterator<Item = &str> {
    host.mounts.iter().flatten().map(|mount| mount.source.as_str())
}

/// A list that was given, with what another covers too, has all that is needed.
fn covers(
    name: &str,
    given: Option<&Vec<String>>,
    also: Option<&Vec<String>>,
    needed: &[&str],
) -> Checked {
    let Some(given) = given else { return Ok(()) };
    let covered =
        |path: &&&str| given.iter().chain(also.into_iter().flatten()).any(|given| given == *path);
    match needed.iter().find(|path| !covered(path)) {
        Some(path) => forbidden(format!("{name} without {path}")),
        None => Ok(()),
    }
}

fn mount(mount: &Mount) -> Checked {
    if mount.r#type != "volume" {
        return forbidden(format!("a mount of type {:?}", mount.r#type));
    }
    if !names::is_ours(&mount.source) {
        return forbidden(format!("a mount of {:?}", mount.source));
    }
    if mount.target != TARGET {
        return forbidden(format!("a mount at {:?}", mount.target));
    }
    Ok(())
}

/// Where the guest's volume lies.
const TARGET: &str = "/skillbox";

fn tmpfs(path: &str, options: &str, policy: &Policy) -> Checked {
    if !TMPFS.contains(&path) {
        return forbidden(format!("a tmpfs at {path:?}"));
    }
    let options: Vec<_> = options.split(',').collect();
    if let Some(odd) = options.iter().find(|option| !tmpfs_option(option, policy)) {
        return forbidden(format!("the tmpfs option {odd:?}"));
    }
    for needed in ["noexec", "nosuid", "nodev"] {
        if !options.contains(&needed) {
            return forbidden(format!("a tmpfs without {needed}"));
        }
    }
    if options.iter().filter(|option| option.starts_with("size=")).count() == 1 {
        return Ok(());
    }
    forbidden("a tmpfs without one size")
}

fn tmpfs_option(option: &str, policy: &Policy) -> bool {
    let Some((name, value)) = option.split_once('=') else {
        return matches!(option, "rw" | "noexec" | "nosuid" | "nodev");
    };
    let digits = value.len() <= 15 && value.bytes().all(|byte| byte.is_ascii_digit());
    let number = value.parse::<i64>().ok().filter(|_| digits);
    match name {
        "size" => number.is_some_and(|bytes| (1..=policy.max_memory_bytes).contains(&bytes)),
        "nr_inodes" => number.is_some_and(|inodes| inodes > 0),
        "uid" | "gid" => number.is_some_and(|id| id <= i64::from(u32::MAX)),
        // No more than the sticky bit above the permissions.
        "mode" => digits && u32::from_str_radix(value, 8).is_ok_and(|mode| mode <= 0o1777),
        _ => false,
    }
}
