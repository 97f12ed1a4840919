//! The container's file systems: a read-only root, tmpfs mounts with a size limit, and one volume
//! of ours.

use crate::config::ContainerPolicy;
use crate::container::{HostConfig, Mount};
use crate::names;
use crate::request_error::{RequestResult, forbidden};

/// The allowed mount points of a tmpfs. None of them hides or replaces anything that the engine has
/// set up.
const TMPFS_PATHS: &[&str] = &["/dev/shm", "/sandbox", "/skills", "/tmp", "/workspace"];

/// The paths that engines mask by default and that current kernels have. A list in the body
/// replaces the engine's default, so it must have all of these; an empty list would unmask
/// everything.
const REQUIRED_MASKED_PATHS: &[&str] = &[
    "/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/sched_debug", "/proc/scsi",
    "/proc/timer_list", "/sys/firmware",
];
const REQUIRED_READONLY_PATHS: &[&str] =
    &["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

pub(super) fn check(host: &HostConfig, policy: &ContainerPolicy) -> RequestResult {
    if host.readonly_rootfs != Some(true) {
        return forbidden("a writable root file system");
    }
    check_paths("MaskedPaths", host.masked_paths.as_ref(), None, REQUIRED_MASKED_PATHS)?;
    check_paths(
        "ReadonlyPaths",
        host.readonly_paths.as_ref(),
        host.masked_paths.as_ref(),
        REQUIRED_READONLY_PATHS,
    )?;
    for (path, options) in host.tmpfs.iter().flatten() {
        check_tmpfs(path, options, policy)?;
    }
    let mounts = host.mounts.as_deref().unwrap_or_default();
    if mounts.len() > 1 {
        return forbidden("more than one mount");
    }
    mounts.iter().try_for_each(check_mount)
}

/// Whether this is the container that fills the guest's volume, the only one that may write to it.
pub(crate) fn is_filler(host: &HostConfig) -> bool {
    host.mounts.iter().flatten().any(|mount| mount.read_only != Some(true))
}

/// The volumes that the container mounts.
pub(crate) fn guest_volumes(host: &HostConfig) -> impl Iterator<Item = &str> {
    host.mounts.iter().flatten().map(|mount| mount.source.as_str())
}

/// Checks that a list, if present, has all required paths. A path in `also` counts as covered.
fn check_paths(
    name: &str,
    given: Option<&Vec<String>>,
    also: Option<&Vec<String>>,
    required: &[&str],
) -> RequestResult {
    let Some(given) = given else { return Ok(()) };
    let covered =
        |path: &&&str| given.iter().chain(also.into_iter().flatten()).any(|given| given == *path);
    match required.iter().find(|path| !covered(path)) {
        Some(path) => forbidden(format!("{name} without {path}")),
        None => Ok(()),
    }
}

fn check_mount(mount: &Mount) -> RequestResult {
    if mount.r#type != "volume" {
        return forbidden(format!("a mount of type {:?}", mount.r#type));
    }
    if !names::is_ours(&mount.source) {
        return forbidden(format!("a mount of {:?}", mount.source));
    }
    if mount.target != GUEST_MOUNT_PATH {
        return forbidden(format!("a mount at {:?}", mount.target));
    }
    Ok(())
}

/// Mount point of the guest's volume.
const GUEST_MOUNT_PATH: &str = "/skillbox";

fn check_tmpfs(path: &str, options: &str, policy: &ContainerPolicy) -> RequestResult {
    if !TMPFS_PATHS.contains(&path) {
        return forbidden(format!("a tmpfs at {path:?}"));
    }
    let options: Vec<_> = options.split(',').collect();
    if let Some(option) = options.iter().find(|option| !is_allowed_option(option, policy)) {
        return forbidden(format!("the tmpfs option {option:?}"));
    }
    for required in ["noexec", "nosuid", "nodev"] {
        if !options.contains(&required) {
            return forbidden(format!("a tmpfs without {required}"));
        }
    }
    if options.iter().filter(|option| option.starts_with("size=")).count() == 1 {
        return Ok(());
    }
    forbidden("a tmpfs without exactly one size")
}

fn is_allowed_option(option: &str, policy: &ContainerPolicy) -> bool {
    let Some((name, value)) = option.split_once('=') else {
        return matches!(option, "rw" | "noexec" | "nosuid" | "nodev");
    };
    let digits = value.len() <= 15 && value.bytes().all(|byte| byte.is_ascii_digit());
    let number = value.parse::<i64>().ok().filter(|_| digits);
    match name {
        "size" => number.is_some_and(|bytes| (1..=policy.max_memory_bytes).contains(&bytes)),
        "nr_inodes" => number.is_some_and(|inodes| inodes > 0),
        "uid" | "gid" => number.is_some_and(|id| id <= i64::from(u32::MAX)),
        // Above the permission bits only the sticky bit, so no setuid or setgid bit.
        "mode" => digits && u32::from_str_radix(value, 8).is_ok_and(|mode| mode <= 0o1777),
        _ => false,
    }
}
