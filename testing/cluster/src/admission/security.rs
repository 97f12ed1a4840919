//! The restricted Pod Security Standard, with the messages of the real admission plugin.

use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

/// The volumes that the standard allows.
const ALLOWED_VOLUMES: [&str; 8] = [
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim",
    "projected", "secret",
];

const SAFE_SYSCTLS: [&str; 12] = [
    "kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_unprivileged_port_start", "net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range",
    "net.ipv4.ip_local_reserved_ports", "net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
];

/// The violations of a pod, one for each failed check.
pub(super) fn violations(pod: &Pod) -> Vec<String> {
    let pod = serde_json::to_value(pod).unwrap_or_default();
    let spec = CheckedSpec { pod: &pod["spec"], containers: containers(&pod["spec"]) };
    let checks: [fn(&CheckedSpec<'_>) -> Option<String>; 14] = [
        host_namespaces, privileged, host_ports, app_armor, se_linux, proc_mount, sysctls,
        host_process, allow_privilege_escalation, capabilities, volumes, run_as_non_root,
        run_as_user, seccomp,
    ];
    checks.iter().filter_map(|check| check(&spec)).collect()
}

struct CheckedSpec<'a> {
    pod: &'a Value,
    containers: Vec<&'a Value>,
}

impl CheckedSpec<'_> {
    /// The names of the containers with a property, in the plugin's format.
    fn named(&self, holds: impl Fn(&Value) -> bool) -> Option<String> {
        let names: Vec<_> = self
            .containers
            .iter()
            .filter(|container| holds(container))
            .map(|c| &c["name"])
            .collect();
        match names.len() {
            0 => None,
            1 => Some(format!("container {}", names[0])),
            _ => Some(format!(
                "containers {}",
                names.iter().map(|name| name.to_string()).collect::<Vec<_>>().join(", ")
            )),
        }
    }

    /// Whether the pod's or a container's security context has a property.
    fn anywhere(&self, holds: impl Fn(&Value) -> bool) -> bool {
        holds(&self.pod["securityContext"])
            || self.containers.iter().any(|c| holds(&c["securityContext"]))
    }
}

fn containers(spec: &Value) -> Vec<&Value> {
    ["initContainers", "containers", "ephemeralContainers"]
        .iter()
        .flat_map(|kind| spec[kind].as_array().into_iter().flatten())
        .collect()
}

fn host_namespaces(spec: &CheckedSpec<'_>) -> Option<String> {
    let set: Vec<_> = ["hostNetwork", "hostPID", "hostIPC"]
        .iter()
        .filter(|name| spec.pod[**name] == true)
        .map(|name| format!("{name}=true"))
        .collect();
    (!set.is_empty()).then(|| format!("host namespaces ({})", set.join(", ")))
}

fn privileged(spec: &CheckedSpec<'_>) -> Option<String> {
    let who = spec.named(|container| container["securityContext"]["privileged"] == true)?;
    Some(format!("privileged ({who} must not set securityContext.privileged=true)"))
}

fn host_ports(spec: &CheckedSpec<'_>) -> Option<String> {
    let uses = |port: &Value| port["hostPort"].as_u64().is_some_and(|port| port > 0);
    let who = spec.named(|container| {
        container["ports"].as_array().is_some_and(|ports| ports.iter().any(uses))
    })?;
    Some(format!("hostPort ({who} uses hostPorts)"))
}

fn app_armor(spec: &CheckedSpec<'_>) -> Option<String> {
    let loose = |context: &Value| context["appArmorProfile"]["type"] == "Unconfined";
    spec.anywhere(loose).then(|| "forbidden AppArmor profile (type \"Unconfined\")".to_owned())
}

fn se_linux(spec: &CheckedSpec<'_>) -> Option<String> {
    const TYPES: [&str; 5] =
        ["", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"];
    let loose = |context: &Value| {
        let options = &context["seLinuxOptions"];
        let set = |name: &str| options[name].as_str().is_some_and(|value| !value.is_empty());
        set("user")
            || set("role")
            || options["type"].as_str().is_some_and(|kind| !TYPES.contains(&kind))
    };
    spec.anywhere(loose)
        .then(|| "seLinuxOptions (a forbidden user, role or type is set)".to_owned())
}

fn proc_mount(spec: &CheckedSpec<'_>) -> Option<String> {
    let loose = |container: &Value| {
        container["securityContext"]["procMount"].as_str().is_some_and(|m| m != "Default")
    };
    let who = spec.named(loose)?;
    Some(format!("procMount ({who} must not set securityContext.procMount to \"Unmasked\")"))
}

fn sysctls(spec: &CheckedSpec<'_>) -> Option<String> {
    let all = spec.pod["securityContext"]["sysctls"].as_array()?;
    let unsafe_one =
        |sysctl: &&Value| sysctl["name"].as_str().is_some_and(|name| !SAFE_SYSCTLS.contains(&name));
    let names: Vec<_> =
        all.iter().filter(unsafe_one).filter_map(|sysctl| sysctl["name"].as_str()).collect();
    (!names.is_empty()).then(|| format!("forbidden sysctls ({})", names.join(", ")))
}

fn host_process(spec: &CheckedSpec<'_>) -> Option<String> {
    spec.anywhere(|context| context["windowsOptions"]["hostProcess"] == true).then(|| {
        "hostProcess (pod must not set securityContext.windowsOptions.hostProcess=true)".to_owned()
    })
}

fn allow_privilege_escalation(spec: &CheckedSpec<'_>) -> Option<String> {
    let who =
        spec.named(|container| container["securityContext"]["allowPrivilegeEscalation"] != false)?;
    Some(format!(
        "allowPrivilegeEscalation != false ({who} must set securityContext.allowPrivilegeEscalation=false)"
    ))
}

fn capabilities(spec: &CheckedSpec<'_>) -> Option<String> {
    let list = |container: &Value, key: &str| -> Vec<String> {
        let list = container["securityContext"]["capabilities"][key]
            .as_array()
            .cloned()
            .unwrap_or_default();
        list.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect()
    };
    let keeps = spec.named(|container| !list(container, "drop").iter().any(|name| name == "ALL"));
    let adds = spec
        .named(|container| list(container, "add").iter().any(|name| name != "NET_BIND_SERVICE"));
    let mut why = Vec::new();
    why.extend(
        keeps.map(|who| format!("{who} must set securityContext.capabilities.drop=[\"ALL\"]")),
    );
    why.extend(adds.map(|who| {
        format!("{who} must not include more than NET_BIND_SERVICE in capabilities.add")
    }));
    (!why.is_empty()).then(|| format!("unrestricted capabilities ({})", why.join("; ")))
}

fn volumes(spec: &CheckedSpec<'_>) -> Option<String> {
    let other = |volume: &&Value| {
        let kinds = volume.as_object().into_iter().flat_map(|volume| volume.keys());
        kinds.filter(|key| *key != "name").any(|kind| !ALLOWED_VOLUMES.contains(&kind.as_str()))
    };
    let names: Vec<_> = spec.pod["volumes"]
        .as_array()?
        .iter()
        .filter(other)
        .map(|volume| format!("volume {}", volume["name"]))
        .collect();
    (!names.is_empty()).then(|| {
        format!("restricted volume types ({} uses a restricted volume type)", names.join(", "))
    })
}

fn run_as_non_root(spec: &CheckedSpec<'_>) -> Option<String> {
    let pod = &spec.pod["securityContext"]["runAsNonRoot"];
    let who = spec.named(|container| match &container["securityContext"]["runAsNonRoot"] {
        Value::Null => *pod != true,
        own => *own != true,
    })?;
    Some(format!("runAsNonRoot != true (pod or {who} must set securityContext.runAsNonRoot=true)"))
}

fn run_as_user(spec: &CheckedSpec<'_>) -> Option<String> {
    spec.anywhere(|context| context["runAsUser"] == 0)
        .then(|| "runAsUser=0 (pod and containers must not set runAsUser=0)".to_owned())
}

fn seccomp(spec: &CheckedSpec<'_>) -> Option<String> {
    let fits =
        |profile: &Value| matches!(profile["type"].as_str(), Some("RuntimeDefault" | "Localhost"));
    let pod = &spec.pod["securityContext"]["seccompProfile"];
    let who = spec.named(|container| match &container["securityContext"]["seccompProfile"] {
        Value::Null => !fits(pod),
        own => !fits(own),
    })?;
    Some(format!(
        "seccompProfile (pod or {who} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")"
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn good() -> Value {
        json!({"spec": {
            "securityContext": {"runAsNonRoot": true, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}},
            "volumes": [{"name": "v", "emptyDir": {}}],
            "containers": [{"name": "c", "image": "i", "securityContext":
                {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}}],
        }})
    }

    #[test]
    fn each_loosening_is_found_and_alone() {
        assert_eq!(
            violations(&serde_json::from_value(good()).expect("a pod")),
            Vec::<String>::new()
        );
        let table = [
            ("/spec/hostNetwork", json!(true), "host namespaces"),
            ("/spec/hostPID", json!(true), "host namespaces"),
            ("/spec/securityContext/runAsNonRoot", Value::Null, "runAsNonRoot != true"),
            ("/spec/securityContext/runAsUser", json!(0), "runAsUser=0"),
            ("/spec/securityContext/seccompProfile/type", json!("Unconfined"), "seccompProfile"),
            (
                "/spec/securityContext/sysctls",
                json!([{"name": "kernel.msgmax", "value": "1"}]),
                "forbidden sysctls",
            ),
            (
                "/spec/volumes/0",
                json!({"name": "v", "hostPath": {"path": "/"}}),
                "restricted volume types",
            ),
            ("/spec/containers/0/ports", json!([{"containerPort": 1, "hostPort": 1}]), "hostPort"),
            ("/spec/containers/0/securityContext/privileged", json!(true), "privileged"),
            ("/spec/containers/0/securityContext/procMount", json!("Unmasked"), "procMount"),
            (
                "/spec/containers/0/securityContext/allowPrivilegeEscalation",
                Value::Null,
                "allowPrivilegeEscalation",
            ),
            (
                "/spec/containers/0/securityContext/capabilities/drop",
                json!(["NET_RAW"]),
                "unrestricted capabilities",
            ),
            (
                "/spec/containers/0/securityContext/capabilities/add",
                json!(["SYS_TIME"]),
                "unrestricted capabilities",
            ),
            (
                "/spec/containers/0/securityContext/runAsNonRoot",
                json!(false),
                "runAsNonRoot != true",
            ),
        ];
        for (path, value, expected) in table {
            let mut pod = good();
            let (parent, key) = path.rsplit_once('/').expect("a path");
            let parent = pod.pointer_mut(parent).expect(path);
            match parent {
                Value::Array(items) => items[0] = value,
                parent => parent[key] = value,
            }
            let found = violations(&serde_json::from_value(pod).expect("a pod"));
            assert_eq!(found.len(), 1, "{path}: {found:?}");
            assert!(found[0].starts_with(expected), "{path}: {found:?}");
        }
    }
}
