//! The create body of a container for a shape: a pure function, with all hardening in one file.
//!
//! Every field is set explicitly, even to an engine's default, so that it can be compared with what
//! the engine reports after the creation (`check`).

use std::collections::HashMap;

use bollard::models::{
    ContainerCreateBody, HealthConfig, HostConfig, HostConfigCgroupnsModeEnum, HostConfigLogConfig,
    Mount, MountType, MountVolumeOptions, ResourcesUlimits, RestartPolicy, RestartPolicyNameEnum,
};
use guest::jail::{Rlimit, SandboxNetwork};

use super::kernel::Kernel;
use crate::container_backend::{
    GUEST_DIRECTORY, GUEST_PROGRAM, LEASE_LABEL, NOBODY_UID, OWNER_LABEL, VERSION_LABEL,
};
use crate::launcher::{Owner, Shape};
use crate::policy::{self, MASKED, WRITABLE};
use crate::seccomp;

/// `/sys` describes the host. Everything in it is masked except the container's own cgroup, which
/// is read-only.
#[rustfmt::skip] // One path per line would fill a page.
const MASKED_IN_SYS: &[&str] = &[
    "/sys/block", "/sys/bus", "/sys/class", "/sys/dev", "/sys/devices", "/sys/firmware", "/sys/hypervisor", "/sys/kernel",
    "/sys/module", "/sys/power", "/sys/fs/bcachefs", "/sys/fs/bpf", "/sys/fs/btrfs", "/sys/fs/cifs", "/sys/fs/erofs",
    "/sys/fs/ext4", "/sys/fs/f2fs", "/sys/fs/fuse", "/sys/fs/gfs2", "/sys/fs/nfs", "/sys/fs/nilfs2", "/sys/fs/ocfs2",
    "/sys/fs/pstore", "/sys/fs/resctrl", "/sys/fs/selinux", "/sys/fs/smackfs", "/sys/fs/tmpfs", "/sys/fs/virtiofs",
    "/sys/fs/xfs",
];

/// The properties of a container that do not come from its shape.
#[derive(Debug, Clone, Copy)]
pub(super) struct ContainerSettings<'a> {
    pub image_id: &'a str,
    pub volume: &'a str,
    /// The engine's default when `None`.
    pub runtime: Option<&'a str>,
    pub owner: &'a Owner,
    pub network: SandboxNetwork,
    pub lease_until: u64,
}

/// The container of one run. The guest uses its standard streams, and nothing else connects to it.
pub(super) fn sandbox(shape: &Shape, settings: &ContainerSettings<'_>) -> ContainerCreateBody {
    let scratch = WRITABLE.map(|path| (path.to_owned(), tmpfs(path, shape))).into();
    let network_mode = Some(network_mode(settings.network).to_owned());
    let host = HostConfig { tmpfs: Some(scratch), network_mode, ..hardened(shape, settings, true) };
    ContainerCreateBody {
        user: Some(format!("{NOBODY_UID}:{NOBODY_UID}")),
        entrypoint: Some(vec![GUEST_PROGRAM.to_owned(), "guest-stdio".to_owned()]),
        attach_stdout: Some(true),
        ..container(settings, host)
    }
}

fn network_mode(network: SandboxNetwork) -> &'static str {
    match network {
        SandboxNetwork::Own => "none",
        SandboxNetwork::Host => "host",
    }
}

/// The fields that all containers have.
pub(super) fn container(settings: &ContainerSettings<'_>, host: HostConfig) -> ContainerCreateBody {
    let labels = [
        (OWNER_LABEL, settings.owner.0.clone()),
        (LEASE_LABEL, settings.lease_until.to_string()),
        (VERSION_LABEL, env!("CARGO_PKG_VERSION").to_owned()),
    ];
    ContainerCreateBody {
        hostname: Some("sandbox".to_owned()),
        domainname: Some(String::new()),
        // The id, not a name: a name could mean another image than the one that was checked.
        image: Some(settings.image_id.to_owned()),
        cmd: Some(vec![]),
        env: Some(vec![]),
        working_dir: Some("/".to_owned()),
        labels: Some(labels.map(|(name, value)| (name.to_owned(), value)).into()),
        healthcheck: Some(HealthConfig {
            test: Some(vec!["NONE".to_owned()]),
            ..HealthConfig::default()
        }),
        tty: Some(false),
        attach_stdin: Some(true),
        attach_stderr: Some(false),
        open_stdin: Some(true),
        // When our connection ends, the guest's input ends, and the guest exits. So a container
        // does not outlive its worker.
        stdin_once: Some(true),
        host_config: Some(host),
        ..ContainerCreateBody::default()
    }
}

/// The restrictions that all containers have.
pub(super) fn hardened(
    shape: &Shape,
    settings: &ContainerSettings<'_>,
    read_only_volume: bool,
) -> HostConfig {
    let memory = Some(shape.memory_bytes.cast_signed());
    HostConfig {
        runtime: settings.runtime.map(str::to_owned),
        // Namespaces: none is shared.
        network_mode: Some("none".to_owned()),
        ipc_mode: Some("none".to_owned()),
        pid_mode: Some(String::new()),
        uts_mode: Some(String::new()),
        userns_mode: Some(String::new()),
        cgroupns_mode: Some(HostConfigCgroupnsModeEnum::PRIVATE),
        // Privileges.
        privileged: Some(false),
        cap_add: Some(vec![]),
        cap_drop: Some(vec!["ALL".to_owned()]),
        group_add: Some(vec![]),
        security_opt: Some(vec![
            "no-new-privileges".to_owned(),
            format!("seccomp={}", seccomp::profile()),
        ]),
        // Files and devices.
        readonly_rootfs: Some(true),
        binds: Some(vec![]),
        volumes_from: Some(vec![]),
        mounts: Some(vec![guest_volume(settings.volume, read_only_volume)]),
        devices: Some(vec![]),
        device_cgroup_rules: Some(vec![]),
        masked_paths: Some(
            MASKED.iter().chain(MASKED_IN_SYS).map(|path| path.to_string()).collect(),
        ),
        readonly_paths: Some(vec!["/proc/sys".to_owned()]),
        // Resources.
        memory,
        // The limit of memory and swap together. Equal to memory, it means no swap.
        memory_swap: memory,
        nano_cpus: Some(i64::from(shape.cpu_millis) * 1_000_000),
        pids_limit: Some(i64::from(shape.pids + kernel_threads(settings.runtime))),
        oom_kill_disable: Some(false),
        ulimits: Some(policy::rlimits(shape).into_iter().map(ulimit).collect()),
        // No actions of the engine around it: no init, restart, published port or log.
        init: Some(false),
        auto_remove: Some(false),
        restart_policy: Some(RestartPolicy {
            name: Some(RestartPolicyNameEnum::NO),
            maximum_retry_count: Some(0),
        }),
        publish_all_ports: Some(false),
        log_config: Some(HostConfigLogConfig {
            typ: Some("none".to_owned()),
            config: Some(HashMap::new()),
        }),
        ..HostConfig::default()
    }
}

/// The threads of gVisor's own kernel, which count against the process limit. gVisor fails without
/// them, so they are added; the guest limits its script to the rest. Other runtimes need none.
fn kernel_threads(runtime: Option<&str>) -> u32 {
    if runtime.map(Kernel::from_runtime) == Some(Kernel::Gvisor) { 1024 } else { 0 }
}

/// `noexec` does not affect scripts, which run through their interpreters, and prevents the
/// execution of dropped programs.
fn tmpfs(path: &str, shape: &Shape) -> String {
    let mode = if path == "/tmp" || path == "/dev/shm" { "1777" } else { "755" };
    format!(
        "noexec,nosuid,nodev,size={},nr_inodes={},uid={NOBODY_UID},gid={NOBODY_UID},mode={mode}",
        shape.disk_bytes, shape.disk_inodes
    )
}

fn guest_volume(name: &str, read_only: bool) -> Mount {
    Mount {
        typ: Some(MountType::VOLUME),
        source: Some(name.to_owned()),
        target: Some(GUEST_DIRECTORY.to_owned()),
        read_only: Some(read_only),
        volume_options: Some(MountVolumeOptions {
            no_copy: Some(true),
            ..MountVolumeOptions::default()
        }),
        ..Mount::default()
    }
}

fn ulimit((limit, value): (Rlimit, u64)) -> ResourcesUlimits {
    let name = match limit {
        Rlimit::Core => "core",
        Rlimit::Data => "data",
        Rlimit::FileSize => "fsize",
        Rlimit::MemoryLock => "memlock",
        Rlimit::MessageQueue => "msgqueue",
        Rlimit::Nice => "nice",
        Rlimit::OpenFiles => "nofile",
        Rlimit::PendingSignals => "sigpending",
        Rlimit::Processes => "nproc",
        Rlimit::RealtimePriority => "rtprio",
        Rlimit::Stack => "stack",
    };
    let both = Some(value.cast_signed());
    ResourcesUlimits { name: Some(name.to_owned()), soft: both, hard: both }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::docker::filler::filler;
    use language::Language;

    const ID: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    /// The body in a fixed order, without the long seccomp profile, which has its own snapshot.
    fn readable(body: &ContainerCreateBody) -> Value {
        fn sorted(value: Value) -> Value {
            match value {
                Value::Object(map) => {
                    let mut entries: Vec<_> = map.into_iter().collect();
                    entries.sort_by(|(one, _), (other, _)| one.cmp(other));
                    Value::Object(
                        entries.into_iter().map(|(key, value)| (key, sorted(value))).collect(),
                    )
                }
                Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
                Value::String(text) if text.starts_with("seccomp=") => "seccomp=…".into(),
                other => other,
            }
        }
        sorted(serde_json::to_value(body).expect("a body is JSON"))
    }

    fn shape() -> Shape {
        Shape {
            language: Language::Python,
            image: None,
            memory_bytes: 256 << 20,
            cpu_millis: 500,
            pids: 64,
            disk_bytes: 128 << 20,
            disk_inodes: 16_384,
        }
    }

    fn settings(owner: &Owner) -> ContainerSettings<'_> {
        ContainerSettings {
            image_id: ID,
            volume: "skillbox-guest-0.1.0-abc",
            runtime: None,
            owner,
            network: SandboxNetwork::Own,
            lease_until: 1_800_000_000,
        }
    }

    #[test]
    fn a_sandbox() {
        insta::assert_json_snapshot!(readable(&sandbox(
            &shape(),
            &settings(&Owner("worker-1".to_owned()))
        )));
    }

    #[test]
    fn another_shape_changes_only_limits_and_another_runtime_only_its_name() {
        let owner = Owner("worker-1".to_owned());
        let small = Shape {
            memory_bytes: 1 << 20,
            cpu_millis: 1500,
            pids: 3,
            disk_bytes: 4096,
            disk_inodes: 7,
            ..shape()
        };
        let other = ContainerSettings { runtime: Some("runsc"), ..settings(&owner) };
        let (before, after) =
            (readable(&sandbox(&shape(), &settings(&owner))), readable(&sandbox(&small, &other)));
        let host = |body: &Value, key: &str| body["HostConfig"][key].clone();
        let keys = after["HostConfig"].as_object().expect("an object").keys();
        let changed: Vec<_> = keys.filter(|key| host(&before, key) != host(&after, key)).collect();
        assert_eq!(
            changed,
            ["Memory", "MemorySwap", "NanoCpus", "PidsLimit", "Runtime", "Tmpfs", "Ulimits"]
        );
        insta::assert_json_snapshot!(after["HostConfig"]["Tmpfs"]);
    }

    #[test]
    fn gvisor_gets_extra_threads_under_every_runtime_name() {
        let owner = Owner("worker-1".to_owned());
        let pids = |runtime| {
            let settings = ContainerSettings { runtime, ..settings(&owner) };
            sandbox(&shape(), &settings)
                .host_config
                .and_then(|host| host.pids_limit)
                .expect("a limit")
        };
        let plain = pids(None);
        for (runtime, more) in
            [("runc", 0), ("kata", 0), ("runsc", 1024), ("io.containerd.runsc.v1", 1024)]
        {
            assert_eq!(pids(Some(runtime)), plain + more, "{runtime}");
        }
    }

    #[test]
    fn the_host_network_changes_only_the_mode_and_never_that_of_a_filler() {
        let owner = Owner("worker-1".to_owned());
        let (own, open) = (
            settings(&owner),
            ContainerSettings { network: SandboxNetwork::Host, ..settings(&owner) },
        );
        let mut opened = readable(&sandbox(&shape(), &open));
        assert_eq!(opened["HostConfig"]["NetworkMode"], "host");
        opened["HostConfig"]["NetworkMode"] = "none".into();
        assert_eq!(opened, readable(&sandbox(&shape(), &own)));
        let fill = || ["temporary", "1000", "abc"].map(str::to_owned);
        assert_eq!(filler(&shape(), &open, fill()), filler(&shape(), &own, fill()));
    }

    #[test]
    fn a_filler() {
        let digest = "abc0".repeat(16);
        let fill = ["skillbox-fill-0123", "1000", &digest].map(str::to_owned);
        let shape = &crate::docker::guest_volume::FILLER_SHAPE;
        insta::assert_json_snapshot!(readable(&filler(
            shape,
            &settings(&Owner("worker-1".to_owned())),
            fill
        )));
    }
}
