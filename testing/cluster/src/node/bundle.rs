//! Translates a container of a pod into the configuration of an OCI runtime, like a kubelet and its
//! container runtime.

use std::collections::BTreeMap;
use std::path::Path;

use k8s_openapi::api::core::v1::{Container, Pod, PodSecurityContext, SecurityContext};
use serde_json::{Value, json};

use super::image::ClusterImage;
use crate::quantity::{amount, units};

/// The paths that container runtimes mask by default.
const MASKED: [&str; 12] = [
    "/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys",
    "/proc/latency_stats", "/proc/sched_debug", "/proc/scsi", "/proc/timer_list",
    "/proc/timer_stats", "/sys/devices/virtual/powercap", "/sys/firmware",
];
const READ_ONLY: [&str; 5] =
    ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// The paths of this machine that are mounted read-only as the contents of an image.
const IMAGE_PATHS: [&str; 3] = ["/usr", "/etc/ld.so.cache", "/etc/alternatives"];

/// The default capabilities of a container that runs as root.
const CAPABILITIES: [&str; 14] = [
    "CAP_AUDIT_WRITE", "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL",
    "CAP_MKNOD", "CAP_NET_BIND_SERVICE", "CAP_NET_RAW", "CAP_SETFCAP", "CAP_SETGID", "CAP_SETPCAP",
    "CAP_SETUID", "CAP_SYS_CHROOT",
];

/// The system calls that a container runtime's default profile blocks for processes without
/// capabilities.
#[rustfmt::skip] // One call a line would make two pages of it.
const BLOCKED_SYSCALLS: [&str; 50] = [
    "acct", "add_key", "bpf", "chroot", "clock_adjtime", "clock_settime", "delete_module", "fanotify_init",
    "finit_module", "fsconfig", "fsmount", "fsopen", "fspick", "get_mempolicy", "init_module", "io_uring_enter",
    "io_uring_register", "io_uring_setup", "ioperm", "iopl", "kcmp", "kexec_file_load", "kexec_load", "keyctl",
    "lookup_dcookie", "mbind", "mount", "mount_setattr", "move_mount", "move_pages", "open_by_handle_at", "open_tree",
    "perf_event_open", "pivot_root", "quotactl", "reboot", "request_key", "set_mempolicy", "setns", "settimeofday",
    "stime", "swapoff", "swapon", "syslog", "umount", "umount2", "unshare", "userfaultfd", "ustat", "vhangup",
];

/// Paths of one pod on this machine.
pub(crate) struct BundlePaths<'a> {
    /// The directory with one subdirectory per volume.
    pub volumes: &'a Path,
    /// The cgroup of this container, relative to the root of every hierarchy.
    pub cgroup: &'a str,
    /// The profiles of this node, for `Localhost`.
    pub profiles: &'a BTreeMap<String, Value>,
}

/// `config.json` of a bundle, or the reason why a kubelet would reject the container.
pub(crate) fn config(
    pod: &Pod,
    container: &Container,
    image: &ClusterImage,
    places: &BundlePaths<'_>,
) -> Result<Value, String> {
    let spec = pod.spec.clone().unwrap_or_default();
    let of_pod = spec.security_context.unwrap_or_default();
    let own = container.security_context.clone().unwrap_or_default();
    let user = user(&of_pod, &own, image)?;
    let profile = own.seccomp_profile.clone().or_else(|| of_pod.seccomp_profile.clone());
    let seccomp = match profile {
        None => Value::Null,
        Some(profile) if profile.type_ == "Unconfined" => Value::Null,
        Some(profile) if profile.type_ == "Localhost" => {
            let name = profile.localhost_profile.unwrap_or_default();
            places
                .profiles
                .get(&name)
                .cloned()
                .ok_or(format!("cannot load seccomp profile {name:?}: no such file"))?
        }
        Some(_) => default_profile(),
    };
    let capabilities = capabilities(&own, user.0 == 0);
    let namespaces =
        ["pid", "network", "ipc", "uts", "mount", "cgroup"].map(|kind| json!({"type": kind}));
    Ok(json!({
        "ociVersion": "1.0.2",
        "process": {
            "terminal": false,
            "user": {"uid": user.0, "gid": user.1, "additionalGids": groups(&of_pod)},
            "args": arguments(container, image)?,
            "env": environment(pod, container, image),
            "cwd": container.working_dir.clone().unwrap_or_else(|| "/".to_owned()),
            "capabilities": capabilities,
            "noNewPrivileges": own.allow_privilege_escalation == Some(false),
            "oomScoreAdj": oom_score(pod, container),
        },
        "root": {"path": "rootfs", "readonly": own.read_only_root_filesystem == Some(true)},
        "hostname": spec.hostname.or_else(|| pod.metadata.name.clone()).unwrap_or_default(),
        "mounts": mounts(container, image, places),
        "linux": {
            "cgroupsPath": places.cgroup,
            "resources": resources(container),
            "namespaces": namespaces,
            "maskedPaths": MASKED,
            "readonlyPaths": READ_ONLY,
            "seccomp": seccomp,
        },
    }))
}

fn user(
    of_pod: &PodSecurityContext,
    own: &SecurityContext,
    image: &ClusterImage,
) -> Result<(i64, i64), String> {
    let user = own.run_as_user.or(of_pod.run_as_user).unwrap_or(image.user.into());
    let group = own.run_as_group.or(of_pod.run_as_group).unwrap_or(image.user.into());
    if own.run_as_non_root.or(of_pod.run_as_non_root) == Some(true) && user == 0 {
        return Err("container has runAsNonRoot and image will run as root".to_owned());
    }
    Ok((user, group))
}

fn groups(of_pod: &PodSecurityContext) -> Vec<i64> {
    of_pod
        .supplemental_groups
        .clone()
        .unwrap_or_default()
        .into_iter()
        .chain(of_pod.fs_group)
        .collect()
}

fn capabilities(own: &SecurityContext, root: bool) -> Value {
    let (added, dropped) = own.capabilities.clone().map(|c| (c.add, c.drop)).unwrap_or_default();
    let named = |names: Option<Vec<String>>| -> Vec<_> {
        names
            .unwrap_or_default()
            .iter()
            .map(|name| format!("CAP_{}", name.trim_start_matches("CAP_")))
            .collect()
    };
    let (added, dropped) = (named(added), named(dropped));
    let kept = CAPABILITIES.iter().map(|name| (*name).to_owned());
    let kept =
        kept.filter(|name| !dropped.iter().any(|dropped| dropped == "CAP_ALL" || dropped == name));
    let bounding: Vec<_> = kept.chain(added).collect();
    let effective = if root { bounding.clone() } else { vec![] };
    json!({"bounding": bounding, "effective": effective, "permitted": effective, "inheritable": [], "ambient": []})
}

fn arguments(container: &Container, image: &ClusterImage) -> Result<Vec<String>, String> {
    let command = container.command.clone().unwrap_or_else(|| image.entrypoint.clone());
    let arguments: Vec<_> =
        command.into_iter().chain(container.args.clone().unwrap_or_default()).collect();
    if arguments.is_empty() { Err("no command specified".to_owned()) } else { Ok(arguments) }
}

/// The variables of the image, those of the cluster, and those of the container, in this order.
fn environment(pod: &Pod, container: &Container, image: &ClusterImage) -> Vec<String> {
    let mut all: Vec<(String, String)> = image.env.clone();
    all.push(("HOSTNAME".to_owned(), pod.metadata.name.clone().unwrap_or_default()));
    // Real pods have these even without service links, which concern only other services.
    for (name, value) in [
        ("KUBERNETES_PORT", "tcp://10.96.0.1:443"),
        ("KUBERNETES_PORT_443_TCP", "tcp://10.96.0.1:443"),
        ("KUBERNETES_PORT_443_TCP_ADDR", "10.96.0.1"),
        ("KUBERNETES_PORT_443_TCP_PORT", "443"),
        ("KUBERNETES_PORT_443_TCP_PROTO", "tcp"),
        ("KUBERNETES_SERVICE_HOST", "10.96.0.1"),
        ("KUBERNETES_SERVICE_PORT", "443"),
        ("KUBERNETES_SERVICE_PORT_HTTPS", "443"),
    ] {
        all.push((name.to_owned(), value.to_owned()));
    }
    for variable in container.env.iter().flatten() {
        all.retain(|(name, _)| *name != variable.name);
        all.push((variable.name.clone(), variable.value.clone().unwrap_or_default()));
    }
    all.into_iter().map(|(name, value)| format!("{name}={value}")).collect()
}

fn mounts(container: &Container, image: &ClusterImage, places: &BundlePaths<'_>) -> Vec<Value> {
    let mount = |path: &str, kind: &str, options: &[&str]| json!({"destination": path, "type": kind, "source": kind, "options": options});
    let bind = |source: &str, path: &str, options: &[&str]| json!({"destination": path, "type": "bind", "source": source, "options": options});
    let mut all = vec![
        mount("/proc", "proc", &["nosuid", "noexec", "nodev"]),
        mount("/dev", "tmpfs", &["nosuid", "strictatime", "mode=755", "size=65536k"]),
        mount(
            "/dev/pts",
            "devpts",
            &["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"],
        ),
        mount("/dev/mqueue", "mqueue", &["nosuid", "noexec", "nodev"]),
        mount("/sys", "sysfs", &["nosuid", "noexec", "nodev", "ro"]),
        mount("/sys/fs/cgroup", "cgroup", &["nosuid", "noexec", "nodev", "relatime", "ro"]),
        mount("/dev/shm", "tmpfs", &["nosuid", "noexec", "nodev", "mode=1777", "size=65536k"]),
    ];
    let here = IMAGE_PATHS.iter().filter(|path| Path::new(path).exists());
    all.extend(here.map(|path| bind(path, path, &["rbind", "ro", "nosuid", "nodev"])));
    let programs = image.files.iter();
    all.extend(programs.map(|(path, host)| {
        bind(&host.to_string_lossy(), path, &["bind", "ro", "nosuid", "nodev"])
    }));
    let mut volumes = container.volume_mounts.clone().unwrap_or_default();
    // Nested mounts must come after the mounts that contain them.
    volumes.sort_by_key(|mount| mount.mount_path.matches('/').count());
    for volume in volumes {
        let source = places.volumes.join(&volume.name).join(volume.sub_path.unwrap_or_default());
        let access = if volume.read_only == Some(true) { "ro" } else { "rw" };
        all.push(bind(
            &source.to_string_lossy(),
            &volume.mount_path,
            &["rbind", "rprivate", access],
        ));
    }
    all
}

fn resources(container: &Container) -> Value {
    let resources = container.resources.clone().unwrap_or_default();
    let (limits, requests) =
        (resources.limits.unwrap_or_default(), resources.requests.unwrap_or_default());
    let mut cgroup_limits = json!({});
    if let Some(bytes) = limits.get("memory").and_then(units) {
        // The limit of memory and swap together, because kubelets allow no swap.
        cgroup_limits["memory"] = json!({"limit": bytes, "swap": bytes});
    }
    let shares = requests.get("cpu").and_then(amount).map(|cores| (cores * 1024.0).max(2.0) as u64);
    let quota = limits.get("cpu").and_then(amount).map(|cores| (cores * 100_000.0) as i64);
    cgroup_limits["cpu"] = json!({"shares": shares.unwrap_or(2)});
    if let Some(quota) = quota {
        cgroup_limits["cpu"]["quota"] = quota.max(1000).into();
        cgroup_limits["cpu"]["period"] = 100_000.into();
    }
    cgroup_limits
}

/// The `oom_score_adj` of a container. In a container even root cannot set a lower value than its
/// own, so this process's value is the minimum.
fn oom_score(pod: &Pod, container: &Container) -> i64 {
    let own = std::fs::read_to_string("/proc/self/oom_score_adj")
        .ok()
        .and_then(|text| text.trim().parse().ok());
    wanted_oom_score(pod, container).max(own.unwrap_or(0))
}

fn wanted_oom_score(pod: &Pod, container: &Container) -> i64 {
    let class = pod.status.as_ref().and_then(|status| status.qos_class.as_deref());
    let requests = container.resources.clone().unwrap_or_default().requests.unwrap_or_default();
    match class {
        Some("Guaranteed") => -997,
        Some("BestEffort") => 1000,
        _ => {
            // A thousandth for each thousandth of a node with 16 GiB.
            let requested = requests.get("memory").and_then(amount).unwrap_or(0.0);
            (1000 - (1000.0 * requested / (16u64 << 30) as f64) as i64).clamp(3, 999)
        }
    }
}

fn default_profile() -> Value {
    json!({
        "defaultAction": "SCMP_ACT_ALLOW",
        "syscalls": [
            {"names": &BLOCKED_SYSCALLS[..], "action": "SCMP_ACT_ERRNO", "errnoRet": 1},
            {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38},
            // New namespaces of any kind.
            {"names": ["clone"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1, "args":
                [{"index": 0, "value": 0x1000_0000u64, "valueTwo": 0x1000_0000u64, "op": "SCMP_CMP_MASKED_EQ"}]},
        ],
    })
}
