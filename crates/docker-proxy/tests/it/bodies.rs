//! Create bodies like those of the launcher, which tests send unchanged or modified.

use serde_json::{Value, json};

use crate::support::engine::{IMAGE_ID, VOLUME};
use crate::support::{FILLER, PROFILE};

/// The container of one run.
pub(crate) fn sandbox() -> Value {
    json!({
        "Image": IMAGE_ID,
        "Hostname": "sandbox",
        "Domainname": "",
        "User": "65534:65534",
        "WorkingDir": "/",
        "Entrypoint": ["/skillbox/skillbox-guest", "guest-stdio"],
        "Cmd": [],
        "Env": [],
        "Labels": {"skillbox.owner": "worker-1", "skillbox.lease": "1800000000", "skillbox.version": "0.1.0"},
        "Healthcheck": {"Test": ["NONE"]},
        "Tty": false,
        "AttachStdin": true,
        "AttachStdout": true,
        "AttachStderr": false,
        "OpenStdin": true,
        "StdinOnce": true,
        "HostConfig": host(),
    })
}

fn host() -> Value {
    let tmpfs = |mode: &str| {
        format!(
            "noexec,nosuid,nodev,size=134217728,nr_inodes=16384,uid=65534,gid=65534,mode={mode}"
        )
    };
    let ulimit = |name: &str, value: i64| json!({"Name": name, "Soft": value, "Hard": value});
    json!({
            "NetworkMode": "none",
            "IpcMode": "none",
            "PidMode": "",
            "UTSMode": "",
            "UsernsMode": "",
            "CgroupnsMode": "private",
            "Privileged": false,
            "CapAdd": [],
            "CapDrop": ["ALL"],
            "GroupAdd": [],
            "SecurityOpt": ["no-new-privileges", format!("seccomp={PROFILE}")],
            "ReadonlyRootfs": true,
            "Binds": [],
            "VolumesFrom": [],
            "Devices": [],
            "DeviceCgroupRules": [],
            "Mounts": [mount(true)],
            "MaskedPaths": [
                "/proc/acpi", "/proc/asound", "/proc/bus", "/proc/fs", "/proc/irq", "/proc/kcore", "/proc/keys",
                "/proc/sched_debug", "/proc/scsi", "/proc/sysrq-trigger", "/proc/timer_list", "/sys/firmware",
            ],
            "ReadonlyPaths": ["/proc/sys"],
            "Tmpfs": {"/tmp": tmpfs("1777"), "/sandbox": tmpfs("755"), "/dev/shm": tmpfs("1777")},
            "Memory": 268435456,
            "MemorySwap": 268435456,
            "NanoCpus": 500000000,
            "PidsLimit": 64,
            "OomKillDisable": false,
            "Ulimits": [ulimit("core", 1), ulimit("fsize", 64 << 20), ulimit("nofile", 1024), ulimit("rtprio", 0)],
            "Init": false,
            "AutoRemove": false,
            "RestartPolicy": {"Name": "no", "MaximumRetryCount": 0},
            "PublishAllPorts": false,
            "LogConfig": {"Type": "none", "Config": {}},
    })
}

/// The container that puts the guest into its volume.
pub(crate) fn filler() -> Value {
    let mut body = sandbox();
    let digest = "ab".repeat(32);
    let arguments = ["skillbox-fill-1", "1000", &digest];
    body["User"] = json!("0:0");
    body["Entrypoint"] = FILLER.iter().chain(&arguments).copied().collect();
    body["HostConfig"]["Mounts"] = json!([mount(false)]);
    body["HostConfig"]["Tmpfs"] = json!({});
    body
}

pub(crate) fn mount(read_only: bool) -> Value {
    json!({"Type": "volume", "Source": VOLUME, "Target": "/skillbox", "ReadOnly": read_only, "VolumeOptions": {"NoCopy": true}})
}

pub(crate) fn volume() -> Value {
    json!({"Name": "skillbox-guest-2", "Driver": "local", "DriverOpts": {}, "Labels": {"skillbox.version": "0.1.0"}})
}

/// The body with the value at a path like `HostConfig.Privileged` set, added or, with `null`, taken
/// away.
pub(crate) fn with(mut body: Value, path: &str, value: Value) -> Value {
    let mut at = &mut body;
    for step in path.split('.') {
        at = match step.parse::<usize>() {
            Ok(index) => &mut at[index],
            Err(_) => &mut at[step],
        };
    }
    *at = value;
    body
}
