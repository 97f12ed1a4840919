//! Create bodies that would give access to the host. None may reach the engine.

use serde_json::{Value, json};

use crate::bodies::{filler, mount, sandbox, volume, with};
use crate::support::engine::{FOREIGN, OURS, VOLUME};
use crate::support::{INSTANCE, PROFILE, RunningProxy, mutating_requests, pair};

/// One changed value each, in a body that would pass without the change.
#[rustfmt::skip] // A case a line.
fn changed_values() -> Vec<(&'static str, Value)> {
    let mount_with = |key: &str, value: Value| { let mut mount = mount(true); mount[key] = value; json!([mount]) };
    let security = |options: &[&str]| json!(options);
    let seccomp = format!("seccomp={PROFILE}");
    let tmpfs = |options: &str| json!({"/tmp": options});
    let ulimits = |limits: &[(&str, i64, i64)]| limits.iter().map(|(name, soft, hard)| json!({"Name": name, "Soft": soft, "Hard": hard})).collect::<Value>();
    vec![
        // Outright root.
        ("HostConfig.Privileged", json!(true)),
        ("HostConfig.CapAdd", json!(["SYS_ADMIN"])),
        ("HostConfig.CapAdd", json!(["ALL"])),
        ("HostConfig.CapDrop", json!([])),
        ("HostConfig.CapDrop", json!(["NET_RAW"])),
        ("HostConfig.CapDrop", Value::Null),
        ("HostConfig.Capabilities", json!(["CAP_SYS_ADMIN"])),
        ("HostConfig.GroupAdd", json!(["0"])),
        ("User", json!("0:0")), ("User", json!("0")), ("User", json!("root")), ("User", json!("")), ("User", json!("65534:0")),
        ("User", json!("00:65534")), ("User", json!("65534")), ("User", json!("+0:65534")), ("User", json!("nobody:nogroup")),
        ("User", Value::Null),
        // The host's files.
        ("HostConfig.Binds", json!(["/:/host"])),
        ("HostConfig.Binds", json!(["/var/run/docker.sock:/docker.sock"])),
        ("HostConfig.Binds", json!([format!("{VOLUME}:/skillbox")])),
        ("HostConfig.Mounts", mount_with("Type", json!("bind"))),
        ("HostConfig.Mounts", json!([{"Type": "bind", "Source": "/", "Target": "/skillbox", "ReadOnly": true}])),
        ("HostConfig.Mounts", mount_with("Type", json!("tmpfs"))),
        ("HostConfig.Mounts", mount_with("Type", json!("image"))),
        ("HostConfig.Mounts", mount_with("Type", json!("Volume"))),
        ("HostConfig.Mounts", mount_with("Source", json!("/etc"))),
        ("HostConfig.Mounts", mount_with("Source", json!(""))),
        ("HostConfig.Mounts", mount_with("Source", json!("skillbox-theirs"))),
        ("HostConfig.Mounts", mount_with("Source", json!("skillbox-bound"))),
        ("HostConfig.Mounts", mount_with("Source", json!("skillbox-missing"))),
        ("HostConfig.Mounts", mount_with("Source", json!("postgres-data"))),
        ("HostConfig.Mounts", mount_with("Target", json!("/etc"))),
        ("HostConfig.Mounts", mount_with("Target", json!("/skillbox/../etc"))),
        ("HostConfig.Mounts", mount_with("ReadOnly", json!(false))),
        ("HostConfig.Mounts", mount_with("ReadOnly", Value::Null)),
        ("HostConfig.Mounts", mount_with("BindOptions", json!({"Propagation": "rshared"}))),
        ("HostConfig.Mounts", mount_with("VolumeOptions", json!({"DriverConfig": {"Name": "local", "Options": {"type": "none", "o": "bind", "device": "/"}}}))),
        ("HostConfig.Mounts", mount_with("VolumeOptions", json!({"Subpath": "../.."}))),
        ("HostConfig.Mounts", mount_with("VolumeOptions", json!({"Labels": {"skillbox.proxy": INSTANCE}}))),
        ("HostConfig.Mounts", json!([mount(true), mount(true)])),
        ("HostConfig.VolumesFrom", json!([FOREIGN])),
        ("HostConfig.VolumeDriver", json!("nfs")),
        ("Volumes", json!({"/data": {}})),
        ("HostConfig.ReadonlyRootfs", json!(false)),
        ("HostConfig.ReadonlyRootfs", Value::Null),
        ("HostConfig.StorageOpt", json!({"size": "100G"})),
        ("HostConfig.ContainerIDFile", json!("/etc/cron.d/x")),
        // Memory file systems.
        ("HostConfig.Tmpfs", tmpfs("exec,nosuid,nodev,size=1000")),
        ("HostConfig.Tmpfs", tmpfs("noexec,suid,nodev,size=1000")),
        ("HostConfig.Tmpfs", tmpfs("noexec,nosuid,dev,size=1000")),
        ("HostConfig.Tmpfs", tmpfs("noexec,nosuid,nodev,exec,size=1000")),
        ("HostConfig.Tmpfs", tmpfs("noexec,nosuid,nodev")),
        ("HostConfig.Tmpfs", tmpfs("")),
        ("HostConfig.Tmpfs", tmpfs("noexec,nosuid,nodev,size=100%")),
        ("HostConfig.Tmpfs", tmpfs("noexec,nosuid,nodev,size=99999999999999")),
        ("HostConfig.Tmpfs", tmpfs("noexec,nosuid,nodev,size=1000,size=1g")),
        ("HostConfig.Tmpfs", tmpfs("noexec,nosuid,nodev,size=1000,mode=4755")),
        ("HostConfig.Tmpfs", tmpfs("noexec,nosuid,nodev,size=1000,rshared")),
        ("HostConfig.Tmpfs", json!({"/etc": "noexec,nosuid,nodev,size=1000"})),
        ("HostConfig.Tmpfs", json!({"/proc": "noexec,nosuid,nodev,size=1000"})),
        ("HostConfig.Tmpfs", json!({"/tmp/../etc": "noexec,nosuid,nodev,size=1000"})),
        // Devices.
        ("HostConfig.Devices", json!([{"PathOnHost": "/dev/sda", "PathInContainer": "/dev/sda", "CgroupPermissions": "rwm"}])),
        ("HostConfig.DeviceCgroupRules", json!(["a *:* rwm"])),
        ("HostConfig.DeviceRequests", json!([{"Driver": "", "Count": -1, "Capabilities": [["gpu"]]}])),
        ("HostConfig.BlkioWeightDevice", json!([{"Path": "/dev/sda", "Weight": 10}])),
        // The host's namespaces and others' ones.
        ("HostConfig.PidMode", json!("host")), ("HostConfig.PidMode", json!(format!("container:{FOREIGN}"))),
        ("HostConfig.IpcMode", json!("host")), ("HostConfig.IpcMode", json!("shareable")),
        ("HostConfig.IpcMode", json!(format!("container:{OURS}"))),
        ("HostConfig.UTSMode", json!("host")), ("HostConfig.UsernsMode", json!("host")),
        ("HostConfig.CgroupnsMode", json!("host")), ("HostConfig.CgroupnsMode", json!("")), ("HostConfig.CgroupnsMode", Value::Null),
        ("HostConfig.Cgroup", json!(format!("container:{FOREIGN}"))), ("HostConfig.CgroupParent", json!("/")),
        ("HostConfig.NetworkMode", json!("host")), ("HostConfig.NetworkMode", json!("bridge")), ("HostConfig.NetworkMode", json!("default")),
        ("HostConfig.NetworkMode", json!("")), ("HostConfig.NetworkMode", json!("None")), ("HostConfig.NetworkMode", Value::Null),
        ("HostConfig.NetworkMode", json!(format!("container:{FOREIGN}"))),
        ("NetworkingConfig", json!({"EndpointsConfig": {"bridge": {}}})),
        ("HostConfig.PortBindings", json!({"80/tcp": [{"HostPort": "80"}]})),
        ("HostConfig.PublishAllPorts", json!(true)),
        ("HostConfig.ExtraHosts", json!(["a:127.0.0.1"])), ("HostConfig.Dns", json!(["127.0.0.1"])), ("HostConfig.Links", json!([FOREIGN])),
        ("MacAddress", json!("02:42:ac:11:00:02")), ("ExposedPorts", json!({"80/tcp": {}})),
        // The kernel's surface.
        ("HostConfig.SecurityOpt", security(&["no-new-privileges", "seccomp=unconfined"])),
        ("HostConfig.SecurityOpt", security(&["no-new-privileges", "seccomp:unconfined"])),
        ("HostConfig.SecurityOpt", security(&["no-new-privileges", "seccomp="])),
        ("HostConfig.SecurityOpt", security(&["no-new-privileges", r#"seccomp={"defaultAction":"SCMP_ACT_ALLOW"}"#])),
        ("HostConfig.SecurityOpt", security(&["no-new-privileges"])),
        ("HostConfig.SecurityOpt", security(&[&seccomp])),
        ("HostConfig.SecurityOpt", security(&["no-new-privileges:false", &seccomp])),
        ("HostConfig.SecurityOpt", security(&["no-new-privileges", &seccomp, "apparmor=unconfined"])),
        ("HostConfig.SecurityOpt", security(&["no-new-privileges", &seccomp, "label=disable"])),
        ("HostConfig.SecurityOpt", security(&["no-new-privileges", &seccomp, "systempaths=unconfined"])),
        ("HostConfig.SecurityOpt", security(&["no-new-privileges", &seccomp, "seccomp=unconfined"])),
        ("HostConfig.SecurityOpt", security(&["no-new-privileges", &seccomp, "no-new-privileges:false"])),
        ("HostConfig.SecurityOpt", Value::Null),
        ("HostConfig.MaskedPaths", json!([])), ("HostConfig.MaskedPaths", json!(["/proc/kcore"])),
        ("HostConfig.ReadonlyPaths", json!([])),
        ("HostConfig.Sysctls", json!({"kernel.core_pattern": "|/bin/sh"})),
        ("HostConfig.Runtime", json!("io.containerd.evil")), ("HostConfig.Runtime", json!("runc")), ("HostConfig.Runtime", json!("")),
        ("HostConfig.Isolation", json!("process")), ("HostConfig.Annotations", json!({"io.kubernetes.cri.untrusted": "1"})),
        // Taking more than its share.
        ("HostConfig.Memory", json!(0)), ("HostConfig.Memory", json!(-1)), ("HostConfig.Memory", Value::Null), ("HostConfig.Memory", json!(2i64 << 30)),
        ("HostConfig.MemorySwap", json!(-1)), ("HostConfig.MemorySwap", json!(0)), ("HostConfig.MemorySwap", Value::Null),
        ("HostConfig.MemorySwappiness", json!(100)), ("HostConfig.KernelMemory", json!(1)),
        ("HostConfig.NanoCpus", json!(0)), ("HostConfig.NanoCpus", json!(5_000_000_000i64)), ("HostConfig.NanoCpus", Value::Null),
        ("HostConfig.CpuShares", json!(262144)), ("HostConfig.CpuRealtimeRuntime", json!(950000)), ("HostConfig.CpusetCpus", json!("0")),
        ("HostConfig.PidsLimit", json!(0)), ("HostConfig.PidsLimit", json!(-1)), ("HostConfig.PidsLimit", json!(100000)), ("HostConfig.PidsLimit", Value::Null),
        ("HostConfig.OomKillDisable", json!(true)), ("HostConfig.OomScoreAdj", json!(-1000)), ("HostConfig.ShmSize", json!(1i64 << 40)),
        ("HostConfig.Ulimits", ulimits(&[("fsize", 1000, 1000), ("nofile", -1, -1)])),
        ("HostConfig.Ulimits", ulimits(&[])), ("HostConfig.Ulimits", Value::Null), ("HostConfig.Ulimits", ulimits(&[("fsize", -1, -1)])),
        ("HostConfig.Ulimits", ulimits(&[("fsize", 1000, 2 << 30)])), ("HostConfig.Ulimits", ulimits(&[("fsize", 1000, 1000), ("fsize", 1000, 2000)])),
        ("HostConfig.Ulimits", ulimits(&[("fsize", 1000, 1000), ("rtprio", 99, 99)])),
        ("HostConfig.Ulimits", ulimits(&[("fsize", 1000, 1000), ("nice", 0, 40)])),
        ("HostConfig.Ulimits", ulimits(&[("fsize", 1000, 1000), ("everything", 1, 1)])),
        // What the engine would do later.
        ("HostConfig.RestartPolicy", json!({"Name": "always"})), ("HostConfig.Init", json!(true)),
        ("HostConfig.RestartPolicy", json!({"Name": "no", "MaximumRetryCount": 9})),
        ("HostConfig.LogConfig", json!({"Type": "json-file"})), ("HostConfig.LogConfig", Value::Null),
        ("HostConfig.LogConfig", json!({"Type": "none", "Config": {"path": "/x"}})),
        ("HostConfig.LogConfig", json!({"Type": "syslog", "Config": {"syslog-address": "tcp://10.0.0.1:514"}})),
        ("Healthcheck", json!({"Test": ["CMD-SHELL", "id"]})), ("Healthcheck", json!({})), ("Tty", json!(true)),
        ("OnBuild", json!(["RUN id"])), ("Shell", json!(["/bin/sh"])), ("StopTimeout", json!(100000)),
        // Whose it is.
        ("Labels", json!({})), ("Labels", Value::Null), ("Labels", json!({"skillbox.proxy": "other"})),
        ("Labels", json!({"skillbox.owner": "x", "traefik.enable": "true"})), ("Labels", json!({"skillbox.owner": "a\nb"})),
        ("Labels", json!({"skillbox.owner": "x".repeat(300)})), ("Labels", json!({"skillbox.Owner": "x"})),
        // What it is made of.
        ("Image", json!("ubuntu")), ("Image", json!("")), ("Image", Value::Null), ("Image", json!("python:3.12-slim@sha256:00")),
        ("Image", json!("PYTHON:3.12-slim")), ("Image", json!(format!("sha256:{}", "2".repeat(64)))), ("Image", json!("1111111111")),
        // Odd words.
        ("Env", json!(["A=\u{0}"])), ("Cmd", json!(vec!["x"; 200])), ("Entrypoint", json!(["x".repeat(5000)])),
        ("WorkingDir", json!("/tmp/../../etc")), ("WorkingDir", json!("/proc/self/fd/8")), ("WorkingDir", json!("/skillbox/made")),
        ("WorkingDir", json!("")), ("WorkingDir", json!("//")), ("WorkingDir", Value::Null),
        ("Hostname", json!("a b")), ("Entrypoint", json!("/bin/sh")),
        // Of the wrong type.
        ("HostConfig", Value::Null), ("HostConfig", json!({})), ("HostConfig", json!([])), ("HostConfig", json!("{}")),
        ("HostConfig.Privileged", json!("false")), ("HostConfig.Privileged", json!(0)), ("HostConfig.Memory", json!(268435456.0)),
        ("HostConfig.Memory", json!("256m")), ("HostConfig.Memory", json!(u64::MAX)), ("HostConfig.CapDrop", json!("ALL")),
        ("HostConfig.CapDrop", json!([null])), ("HostConfig.Tmpfs", json!([])),
        // Names that nobody knows, at every level.
        ("Unknown", json!(1)), ("HostConfig.Unknown", json!({})), ("HostConfig.LogConfig", json!({"Type": "none", "Unknown": 1})),
        ("HostConfig.Mounts", mount_with("Unknown", json!(1))), ("Privileged", json!(true)), ("Binds", json!(["/:/host"])),
    ]
}

/// Bodies that cannot be made from a JSON value: keys twice, in another case, and worse.
fn changed_texts() -> Vec<String> {
    let text = sandbox().to_string();
    let in_host =
        |members: &str| text.replace(r#""HostConfig":{"#, &format!(r#""HostConfig":{{{members},"#));
    let at_end =
        |members: &str| format!("{},{members}}}", text.trim_end_matches('}').to_owned() + "}}");
    let in_all = |from: &str, to: &str| {
        assert!(text.contains(from), "{from} stands in the body");
        text.replace(from, to)
    };
    let mut texts: Vec<String> = [
        r#""privileged":true"#,
        r#""PRIVILEGED":true"#,
        r#""Privileged":true"#,
        r#""Privil\u0065ged":true"#,
        r#""privileged":false"#,
        r#""binds":["/:/host"]"#,
        r#""Bind\u017f":["/:/host"]"#,
        "\"Bind\u{17f}\":[\"/:/host\"]",
        "\"Ma\u{17f}kedPaths\":[]",
        "\"Networ\u{212a}Mode\":\"host\"",
        r#""Networ\u212aMode":"host""#,
        r#""networkMode":"host""#,
        r#""capadd":["ALL"]"#,
        r#""CapAdd":["ALL"]"#,
        r#""PidMode":"host""#,
        r#""pidmode":"host""#,
        r#""UtsMode":"host""#,
        r#""SecurityOpt":[]"#,
        r#""securityOpt":["seccomp=unconfined"]"#,
        r#""Memory":0"#,
        r#""memory":-1"#,
        r#""":{}"#,
        r#""Privileged\u0000":true"#,
        r#""Privileged ":true"#,
    ]
    .map(in_host)
    .to_vec();
    texts.extend(
        [
            r#""hostconfig":{"Privileged":true}"#, r#""HostConfig":{"Privileged":true}"#,
            r#""hostConfig":null"#, r#""image":"ubuntu""#, r#""user":"0:0""#, r#""LABELS":{}"#,
        ]
        .map(at_end),
    );
    texts.extend([
        in_all(r#""ReadOnly":true"#, r#""ReadOnly":true,"readonly":false"#),
        in_all(r#""ReadOnly":true"#, r#""ReadOnly":false,"ReadOnly":true"#),
        in_all(r#""Type":"volume""#, r#""Type":"volume","type":"bind""#),
        in_all(
            r#""skillbox.owner":"worker-1""#,
            r#""skillbox.owner":"worker-1","skillbox.owner":"x""#,
        ),
        in_all(r#""/tmp":"#, r#""/tmp":"exec","/tmp":"#),
        in_all(r#""NoCopy":true"#, r#""NoCopy":true,"nocopy":false"#),
        format!("{text}{text}"),
        format!("[{text}]"),
        format!("\u{feff}{text}"),
        format!("{text}\0"),
        text[..text.len() - 1].to_owned(),
        text.replace(':', ": ").replace("256", "256,"),
        "[]".into(),
        "null".into(),
        "{}".into(),
        "\"\"".into(),
        String::new(),
        format!("{}{}", "[".repeat(50_000), "]".repeat(50_000)),
        format!(
            "{{\"HostConfig\":{}{}}}",
            "{\"a\":".repeat(300),
            "1".to_owned() + &"}".repeat(300)
        ),
    ]);
    texts
}

async fn assert_rejected(proxy: &RunningProxy, what: &str, body: &str) {
    let answer = proxy.ask("POST", "/v1.44/containers/create", body).await;
    let good = matches!(answer.status, 400 | 403 | 404 | 413) && !answer.message().is_empty();
    assert!(good, "{what} was answered with {answer:?}");
}

#[tokio::test]
async fn no_hostile_container_reaches_the_engine() {
    let (engine, proxy) = pair().await;
    let (values, texts) = (changed_values(), changed_texts());
    assert!(values.len() + texts.len() >= 60);
    for (path, value) in values {
        let what = format!("{path} = {value}");
        assert_rejected(&proxy, &what, &with(sandbox(), path, value).to_string()).await;
    }
    for text in texts {
        assert_rejected(&proxy, &text, &text).await;
    }
    assert!(
        mutating_requests(&engine.requests()).is_empty(),
        "the engine saw {:?}",
        mutating_requests(&engine.requests())
    );
    // The same way is open to what is not hostile.
    assert_eq!(proxy.create(&sandbox()).await.status, 201);
}

#[tokio::test]
async fn no_hostile_filler_reaches_the_engine() {
    let (engine, proxy) = pair().await;
    let entrypoint = |words: &[&str]| json!(words);
    for (path, value) in [
        ("Entrypoint", entrypoint(&["/bin/sh", "-c", "id"])),
        (
            "Entrypoint",
            entrypoint(&[
                "/bin/sh", "-c", "cat > /skillbox/skillbox-guest; id", "fill", "a", "1", "b",
            ]),
        ),
        (
            "Entrypoint",
            entrypoint(&[
                "/bin/sh", "-c", "cat > /skillbox/skillbox-guest", "fill", "$(id)", "1", "b",
            ]),
        ),
        ("Entrypoint", Value::Null),
        ("Entrypoint.4", json!("skillbox-guest")),
        ("Entrypoint.4", json!("skillbox-fill-1/../../etc")),
        ("Entrypoint.5", json!("0")),
        ("Entrypoint.5", json!("+1000")),
        ("Entrypoint.5", json!("")),
        ("Entrypoint.6", json!("abc")),
        ("Cmd", json!(["x"])),
        ("Env", json!(["PATH=/skillbox"])),
        ("User", json!("0:65534")),
        ("HostConfig.Privileged", json!(true)),
        ("HostConfig.CapAdd", json!(["DAC_OVERRIDE"])),
        ("HostConfig.NetworkMode", json!("bridge")),
        ("HostConfig.Mounts", json!([])),
        ("HostConfig.Mounts", json!([mount(true)])),
        ("HostConfig.Mounts", json!([mount(false), mount(true)])),
    ] {
        let what = format!("{path} = {value}");
        assert_rejected(&proxy, &what, &with(filler(), path, value).to_string()).await;
    }
    assert!(mutating_requests(&engine.requests()).is_empty());
    assert_eq!(proxy.create(&filler()).await.status, 201);
}

#[tokio::test]
async fn no_hostile_volume_reaches_the_engine() {
    let (engine, proxy) = pair().await;
    let bodies = [
        ("DriverOpts", json!({"type": "none", "o": "bind", "device": "/"})),
        ("driveropts", json!({"type": "none", "o": "bind", "device": "/"})),
        ("Driver", json!("nfs")),
        ("Name", json!("postgres-data")),
        ("Name", json!("../../etc")),
        ("Name", json!("")),
        ("Name", Value::Null),
        ("Name", json!("skillbox-theirs")),
        ("Name", json!("skillbox-bound")),
        ("Labels", json!({"com.example": "x"})),
        ("Labels", json!({"skillbox.proxy": "other"})),
        ("ClusterVolumeSpec", json!({})),
    ];
    for (path, value) in bodies {
        let answer = proxy
            .ask("POST", "/volumes/create", &with(volume(), path, value.clone()).to_string())
            .await;
        assert!(matches!(answer.status, 400 | 403 | 409), "{path} = {value}: {answer:?}");
    }
    assert!(mutating_requests(&engine.requests()).is_empty());
    assert_eq!(proxy.ask("POST", "/volumes/create", &volume().to_string()).await.status, 201);
}

#[tokio::test]
async fn rejects_a_body_above_the_size_limit() {
    let (engine, proxy) = pair().await;
    let padded = format!("{}{}", sandbox(), " ".repeat(300 << 10));
    let answer = proxy.ask("POST", "/containers/create", &padded).await;
    assert!(answer.status == 413 || answer.status == 0, "{answer:?}");
    assert!(engine.requests().is_empty());
}
