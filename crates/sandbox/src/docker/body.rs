//! From a shape to the container that is asked for: a pure function, and all hardening on one page.
//!
//! Everything is said explicitly, also where it is an engine's default, so that it can be compared
//! with what the engine then says it has made (`check`).

use std::collections::HashMap;

use bollard::models::{
    ContainerCreateBody, HealthConfig, HostConfig, HostConfigCgroupnsModeEnum, HostConfigLogConfig,
    Mount, MountType, MountVolumeOptions, ResourcesUlimits, RestartPolicy, RestartPolicyNameEnum,
};
use guest::jail::{Rlimit, SandboxNetwork};

use super::runtime::Kernel;
use crate::contained::{
    GUEST_DIRECTORY, GUEST_PROGRAM, LEASE_LABEL, OWNER_LABEL, USER, VERSION_LABEL,
};
use crate::launcher::{Owner, Shape};
use crate::policy::{self, MASKED, WRITABLE};
use crate::seccomp;

/// `/sys` is the machine's; of it a container keeps its own control group, to read.
#[rustfmt::skip] // One path a line would make a page of it.
const MASKED_IN_SYS: &[&str] = &[
    "/sys/block", "/sys/bus", "/sys/class", "/sys/dev", "/sys/devices", "/sys/firmware", "/sys/hypervisor", "/sys/kernel",
    "/sys/module", "/sys/power", "/sys/fs/bcachefs", "/sys/fs/bpf", "/sys/fs/btrfs", "/sys/fs/cifs", "/sys/fs/erofs",
    "/sys/fs/ext4", "/sys/fs/f2fs", "/sys/fs/fuse", "/sys/fs/gfs2", "/sys/fs/nfs", "/sys/fs/nilfs2", "/sys/fs/ocfs2",
    "/sys/fs/pstore", "/sys/fs/resctrl", "/sys/fs/selinux", "/sys/fs/smackfs", "/sys/fs/tmpfs", "/sys/fs/virtiofs",
    "/sys/fs/xfs",
];

/// What a container is made with that does not come from its shape.
#[derive(Debug, Clone, Copy)]
pub struct Setting<'a> {
    pub image_id: &'a str,
    pub volume: &'a str,
    /// The engine's default when `None`.
    pub runtime: Option<&'a str>,
    pub owner: &'a Owner,
    pub network: SandboxNetwork,
    pub lease_until: u64,
}

/// The container of one run: a guest on its standard streams, and nothing else.
pub fn sandbox(shape: &Shape, setting: &Setting<'_>) -> ContainerCreateBody {
    let scratch = WRITABLE.map(|path| (path.to_owned(), tmpfs(path, shape))).into();
    let network_mode = Some(network_mode(setting.network).to_owned());
    let host = HostConfig { tmpfs: Some(scratch), network_mode, ..hardened(shape, setting, true) };
    ContainerCreateBody {
        user: Some(format!("{USER}:{USER}")),
        entrypoint: Some(vec![GUEST_PROGRAM.to_owned(), "guest-stdio".to_owned()]),
        attach_stdout: Some(true),
        ..container(setting, host)
    }
}

fn network_mode(network: SandboxNetwork) -> &'static str {
    match network {
        SandboxNetwork::Own => "none",
        SandboxNetwork::Host => "host",
    }
}

/// Puts the program it reads from its standard input into the volume, unless it is there already.
///
/// It is root, because a new volume belongs to root, without a single capability; no byte of a
/// tenant comes near it.
pub fn filler(shape: &Shape, setting: &Setting<'_>, fill: [String; 3]) -> ContainerCreateBody {
    let host = HostConfig { tmpfs: Some(HashMap::new()), ..hardened(shape, setting, false) };
    let entrypoint = FILLER.map(str::to_owned).into_iter().chain(fill);
    ContainerCreateBody {
        user: Some("0:0".to_owned()),
        entrypoint: Some(entrypoint.collect()),
        attach_stdout: Some(false),
        ..container(setting, host)
    }
}

/// What a filler starts with, before its arguments: a proxy lets no other program be root.
pub const FILLER: [&str; 4] = ["/bin/sh", "-c", FILL, "fill"];

/// The most that a filler may write, which is several times the guest.
pub const FILL_BYTES: u64 = 64 << 20;

/// With the name to write to first, the size and the SHA-256 as arguments. Nobody ever sees half a
/// program. What a killed filler has left is removed by the next one, once it is too old to be
/// another's that is still at work.
const FILL: &str = r#"
sum() { set -- $(sha256sum "$1" 2>/dev/null); echo "$1"; }
program=/skillbox/skillbox-guest
find /skillbox -name 'skillbox-fill-*' -mmin +9 -exec rm -f {} + 2>/dev/null
[ "$(sum $program)" = "$3" ] && exit 0
trap 'rm -f "/skillbox/$1"' EXIT
head -c "$2" > "/skillbox/$1" && [ "$(sum "/skillbox/$1")" = "$3" ] && chmod 0555 "/skillbox/$1" &&
    mv -f "/skillbox/$1" $program
"#;

fn container(setting: &Setting<'_>, host: HostConfig) -> ContainerCreateBody {
    let labels = [
        (OWNER_LABEL, setting.owner.0.clone()),
        (LEASE_LABEL, setting.lease_until.to_string()),
        (VERSION_LABEL, env!("CARGO_PKG_VERSION").to_owned()),
    ];
    ContainerCreateBody {
        hostname: Some("sandbox".to_owned()),
        domainname: Some(String::new()),
        // The id, not a name: what was looked at is what runs.
        image: Some(setting.image_id.to_owned()),
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
        // The end of our connection is the end of the guest's input, and so the end of the guest.
        stdin_once: Some(true),
        host_config: Some(host),
        ..ContainerCreateBody::default()
    }
}

fn hardened(shape: &Shape, setting: &Setting<'_>, read_only_volume: bool) -> HostConfig {
    let memory = Some(shape.memory_bytes.cast_signed());
    HostConfig {
        runtime: setting.runtime.map(str::to_owned),
        // What it shares with nobody.
        network_mode: Some("none".to_owned()),
        ipc_mode: Some("none".to_owned()),
        pid_mode: Some(String::new()),
        uts_mode: Some(String::new()),
        userns_mode: Some(String::new()),
        cgroupns_mode: Some(HostConfigCgroupnsModeEnum::PRIVATE),
        // What it may do.
        privileged: Some(false),
        cap_add: Some(vec![]),
        cap_drop: Some(vec!["ALL".to_owned()]),
        group_add: Some(vec![]),
        security_opt: Some(vec![
            "no-new-privileges".to_owned(),
            format!("seccomp={}", seccomp::profile()),
        ]),
        // What it sees.
        readonly_rootfs: Some(true),
        binds: Some(vec![]),
        volumes_from: Some(vec![]),
        mounts: Some(vec![guest_volume(setting.volume, read_only_volume)]),
        devices: Some(vec![]),
        device_cgroup_rules: Some(vec![]),
        masked_paths: Some(
            MASKED.iter().chain(MASKED_IN_SYS).map(|path| path.to_string()).collect(),
        ),
        readonly_paths: Some(vec!["/proc/sys".to_owned()]),
        // How much it takes.
        memory,
        // Memory and swap together may be no more than memory: no swap.
        memory_swap: memory,
        nano_cpus: Some(i64::from(shape.cpu_millis) * 1_000_000),
        pids_limit: Some(i64::from(shape.pids + kernel_threads(setting.runtime))),
        oom_kill_disable: Some(false),
        ulimits: Some(policy::rlimits(shape).into_iter().map(ulimit).collect()),
        // What the engine does around it: nothing.
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

/// What the kernel of gVisor itself takes of the process limit, which it cannot live without; the
/// guest holds its script to the rest. Other runtimes take none.
fn kernel_threads(runtime: Option<&str>) -> u32 {
    if runtime.map(Kernel::under) == Some(Kernel::Gvisor) { 1024 } else { 0 }
}

/// `noexec` costs scripts nothing, which run through their interpreters, and spares us every
/// program that is dropped.
fn tmpfs(path: &str, shape: &Shape) -> String {
    let mode = if path == "/tmp" || path == "/dev/shm" { "1777" } else { "755" };
    format!(
        "noexec,nosuid,nodev,size={},nr_inodes={},uid={USER},gid={USER},mode={mode}",
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
    use language::Language;

    const ID: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    /// In a fixed order, with the long profile, which has a snapshot of its own, cut.
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

    fn setting(owner: &Owner) -> Setting<'_> {
        Setting {
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
            &setting(&Owner("worker-1".to_owned()))
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
        let other = Setting { runtime: Some("runsc"), ..setting(&owner) };
        let (before, after) =
            (readable(&sandbox(&shape(), &setting(&owner))), readable(&sandbox(&small, &other)));
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
    fn the_kernel_of_gvisor_has_room_for_its_threads_whatever_its_runtime_is_called() {
        let owner = Owner("worker-1".to_owned());
        let pids = |runtime| {
            let setting = Setting { runtime, ..setting(&owner) };
            sandbox(&shape(), &setting)
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
    fn the_hosts_network_changes_its_mode_alone_and_never_that_of_a_filler() {
        let owner = Owner("worker-1".to_owned());
        let (own, open) =
            (setting(&owner), Setting { network: SandboxNetwork::Host, ..setting(&owner) });
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
        let shape = &crate::docker::volume::SHAPE;
        insta::assert_json_snapshot!(readable(&filler(
            shape,
            &setting(&Owner("worker-1".to_owned())),
            fill
        )));
    }
}
