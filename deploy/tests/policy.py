"""Rules for all rendered objects. A rule yields one message for each violation; `check` collects them all.

The rules named `pss_…` are the restricted Pod Security Standard (with the baseline it contains), one for each of its controls."""

import ipaddress
import re
from dataclasses import dataclass

from pods import Pod, pods, selects

POD_RULES = {}
CONTAINER_RULES = {}
SET_RULES = {}

# The pods that may talk to Kubernetes, by their component.
WITH_TOKEN = {"worker"}
VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}
SYSCTLS = {
    "kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_unprivileged_port_start", "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range", "net.ipv4.ip_local_reserved_ports", "net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes",
}  # fmt: skip
SELINUX = {"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"}
SECRET_NAME = re.compile(r"(SECRET|PASSWORD|TOKEN|_KEY|_DSN)$|CREDENTIAL")


@dataclass(frozen=True)
class Finding:
    rule: str
    where: str
    what: str


def rule(table):
    def add(function):
        table[function.__name__] = function
        return function

    return add


def check(objects):
    """Every violation of every rule."""
    found = []
    for pod in pods(objects):
        for name, test in POD_RULES.items():
            found += [Finding(name, pod.name, what) for what in test(pod)]
        for name, test in CONTAINER_RULES.items():
            for container in pod.containers:
                where = f"{pod.name} {container['name']}"
                found += [Finding(name, where, what) for what in test(pod, container)]
    for name, test in SET_RULES.items():
        found += [Finding(name, "the whole", what) for what in test(objects)]
    return found


def effective(pod, container, field):
    """A field of the security context: the container's own word, else the pod's."""
    own = container.get("securityContext", {})
    return own[field] if field in own else pod.spec.get("securityContext", {}).get(field)


@rule(POD_RULES)
def pss_host_namespaces(pod: Pod):
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if pod.spec.get(field):
            yield f"{field} is set"


@rule(POD_RULES)
def pss_volume_types(pod: Pod):
    for volume in pod.spec.get("volumes", []):
        if extra := set(volume) - {"name"} - VOLUMES:
            yield f"volume {volume['name']} is a {', '.join(extra)}"


@rule(POD_RULES)
def pss_sysctls(pod: Pod):
    for sysctl in pod.spec.get("securityContext", {}).get("sysctls", []):
        if sysctl["name"] not in SYSCTLS:
            yield f"sysctl {sysctl['name']}"


@rule(POD_RULES)
def pss_app_armor(pod: Pod):
    for key, value in pod.template["metadata"].get("annotations", {}).items():
        allowed = value == "runtime/default" or value.startswith("localhost/")
        if key.startswith("container.apparmor.security.beta.kubernetes.io/") and not allowed:
            yield f"AppArmor is {value}"
    for context in [pod.spec, *pod.containers]:
        if context.get("securityContext", {}).get("appArmorProfile", {}).get("type") == "Unconfined":
            yield "AppArmor is unconfined"


@rule(CONTAINER_RULES)
def pss_privileged(pod, container):
    if container.get("securityContext", {}).get("privileged"):
        yield "is privileged"


@rule(CONTAINER_RULES)
def pss_host_process(pod, container):
    if (effective(pod, container, "windowsOptions") or {}).get("hostProcess"):
        yield "is a process of the host"


@rule(CONTAINER_RULES)
def pss_capabilities(pod, container):
    capabilities = container.get("securityContext", {}).get("capabilities", {})
    if "ALL" not in capabilities.get("drop", []):
        yield "does not drop all capabilities"
    if extra := set(capabilities.get("add", [])) - {"NET_BIND_SERVICE"}:
        yield f"adds {', '.join(sorted(extra))}"


@rule(CONTAINER_RULES)
def pss_host_ports(pod, container):
    for port in container.get("ports", []):
        if port.get("hostPort"):
            yield f"takes port {port['hostPort']} of the host"


@rule(CONTAINER_RULES)
def pss_probe_hosts(pod, container):
    handlers = [container.get(probe, {}) for probe in ("startupProbe", "livenessProbe", "readinessProbe")]
    handlers += container.get("lifecycle", {}).values()
    for handler in handlers:
        if handler.get("httpGet", {}).get("host") or handler.get("tcpSocket", {}).get("host"):
            yield "has a probe of another host"


@rule(CONTAINER_RULES)
def pss_selinux(pod, container):
    options = effective(pod, container, "seLinuxOptions") or {}
    if options.get("type", "") not in SELINUX or options.get("user") or options.get("role"):
        yield "chooses SELinux options"


@rule(CONTAINER_RULES)
def pss_proc_mount(pod, container):
    if container.get("securityContext", {}).get("procMount", "Default") != "Default":
        yield "sees the whole /proc"


@rule(CONTAINER_RULES)
def pss_seccomp(pod, container):
    if (effective(pod, container, "seccompProfile") or {}).get("type") not in ("RuntimeDefault", "Localhost"):
        yield "has no seccomp profile"


@rule(CONTAINER_RULES)
def pss_privilege_escalation(pod, container):
    if container.get("securityContext", {}).get("allowPrivilegeEscalation") is not False:
        yield "may gain privileges"


@rule(CONTAINER_RULES)
def pss_run_as_non_root(pod, container):
    if effective(pod, container, "runAsNonRoot") is not True:
        yield "may be root"


@rule(CONTAINER_RULES)
def pss_run_as_user(pod, container):
    if effective(pod, container, "runAsUser") == 0:
        yield "is root"


@rule(CONTAINER_RULES)
def read_only_root(pod, container):
    if container.get("securityContext", {}).get("readOnlyRootFilesystem") is not True:
        yield "can write to its root"


@rule(CONTAINER_RULES)
def limits_and_requests(pod, container):
    for kind in ("requests", "limits"):
        for resource in ("cpu", "memory", "ephemeral-storage"):
            if not container.get("resources", {}).get(kind, {}).get(resource):
                yield f"has no {kind} of {resource}"


@rule(CONTAINER_RULES)
def pinned_image(pod, container):
    name, _, digest = container["image"].partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    if tag == "latest" or not (tag or digest):
        yield f"is {container['image']}, which changes"


@rule(CONTAINER_RULES)
def secrets_by_reference(pod, container):
    for variable in container.get("env", []):
        if "value" in variable and SECRET_NAME.search(variable["name"]):
            yield f"has {variable['name']} in its text"
    if container.get("envFrom"):
        yield "takes whole Secrets or ConfigMaps as its environment"


@rule(CONTAINER_RULES)
def probes(pod, container):
    if not pod.runs_for_ever or container not in pod.spec["containers"]:
        return
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        if not container.get(probe):
            yield f"has no {probe}"


@rule(POD_RULES)
def bounded_volumes(pod: Pod):
    for volume in pod.spec.get("volumes", []):
        if "emptyDir" in volume and not (volume["emptyDir"] or {}).get("sizeLimit"):
            yield f"emptyDir {volume['name']} has no limit"


@rule(POD_RULES)
def token_only_where_named(pod: Pod):
    wanted = pod.labels.get("app.kubernetes.io/component") in WITH_TOKEN
    if pod.spec.get("automountServiceAccountToken") is not wanted:
        yield "should " + ("have a token" if wanted else "have no token, and say so")


@rule(POD_RULES)
def no_service_links(pod: Pod):
    if pod.spec.get("enableServiceLinks") is not False:
        yield "has the addresses of all services in its environment"


@rule(POD_RULES)
def own_account_with_token(pod: Pod):
    if pod.spec.get("automountServiceAccountToken") and pod.spec.get("serviceAccountName", "default") == "default":
        yield "shares the token of the namespace's default account"


@rule(POD_RULES)
def time_to_drain(pod: Pod):
    for container in pod.spec["containers"]:
        drain = [v["value"] for v in container.get("env", []) if v["name"] == "SKILLBOX_DRAIN_TIMEOUT"]
        sleep = container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
        if drain and pod.spec.get("terminationGracePeriodSeconds", 30) < int(drain[0].removesuffix("s")) + sleep + 20:
            yield "is killed before it has drained"
        if drain and pod.labels.get("app.kubernetes.io/component") == "api" and not sleep:
            yield "stops to listen before balancers know"


@rule(SET_RULES)
def network_policy_for_every_pod(objects):
    policies = [value for value in objects if value["kind"] == "NetworkPolicy"]
    for pod in pods(objects):
        for direction in ("Ingress", "Egress"):
            if not any(covers(policy, pod, direction) for policy in policies):
                yield f"no policy covers {pod.name}, {direction}"


def covers(policy, pod, direction):
    spec = policy["spec"]
    same = policy["metadata"]["namespace"] == pod.namespace
    return same and direction in spec["policyTypes"] and selects(spec["podSelector"], pod.labels)


@rule(SET_RULES)
def ways_out_name_their_peers(objects):
    """Rules add up: one without peers opens its port to every address, whatever another one excludes."""
    for policy in (value for value in objects if value["kind"] == "NetworkPolicy"):
        for allowed in policy["spec"].get("egress", []):
            if not all(allowed.get("to") or [None]):
                yield f"{policy['metadata']['name']} allows traffic to every address"


# Where a webhook may not lead: the cloud's metadata, and addresses that nobody named.
CLOSED = ("169.254.169.254", "10.255.255.254", "172.31.255.254", "192.168.255.254", "fd00::1", "fe80::1")


@rule(SET_RULES)
def private_addresses_are_closed_to_the_api(objects):
    """The sum of all policies of the pods that deliver webhooks, asked for each address."""
    api = [pod for pod in pods(objects) if pod.labels.get("app.kubernetes.io/component") == "api"]
    for policy in (value for value in objects if value["kind"] == "NetworkPolicy"):
        if not any(covers(policy, pod, "Egress") for pod in api):
            continue
        for address in CLOSED:
            if any(reaches(allowed, address) for allowed in policy["spec"].get("egress", [])):
                yield f"{policy['metadata']['name']} opens {address}"


def reaches(allowed, address):
    """Whether an egress rule leads to an address outside of the cluster, on any port."""
    peers = allowed.get("to") or [{"ipBlock": {"cidr": "0.0.0.0/0"}}, {"ipBlock": {"cidr": "::/0"}}]
    blocks = [peer["ipBlock"] for peer in peers if "ipBlock" in peer]
    return any(within(address, block["cidr"]) and not any(within(address, out) for out in block.get("except", [])) for block in blocks)


def within(address, cidr):
    return ipaddress.ip_address(address) in ipaddress.ip_network(cidr)


@rule(SET_RULES)
def sandboxes_have_no_network(objects):
    denied = False
    for policy in (value for value in objects if value["kind"] == "NetworkPolicy"):
        if policy["metadata"]["namespace"] not in sandbox_namespaces(objects):
            continue
        spec = policy["spec"]
        if spec.get("ingress") or spec.get("egress"):
            yield f"{policy['metadata']['name']} lets sandboxes out or others in"
        denied |= spec["podSelector"] == {} and set(spec["policyTypes"]) == {"Ingress", "Egress"}
    if not denied:
        yield "nothing denies sandboxes the network"


def sandbox_namespaces(objects):
    """Where workers may make pods."""
    return {value["metadata"]["namespace"] for value in objects if value["kind"] == "RoleBinding"}


@rule(SET_RULES)
def sandboxes_have_their_own_namespace(objects):
    for namespace in sandbox_namespaces(objects):
        if any(pod.namespace == namespace for pod in pods(objects)):
            yield f"{namespace} has pods of the service in it"
    for value in objects:
        if value["kind"] == "Namespace":
            for mode in ("enforce", "audit", "warn"):
                if value["metadata"].get("labels", {}).get(f"pod-security.kubernetes.io/{mode}") != "restricted":
                    yield f"{value['metadata']['name']} does not {mode} the restricted standard"


@rule(SET_RULES)
def least_rights(objects):
    allowed = {"pods": {"create", "get", "list", "watch", "delete"}, "pods/attach": {"get", "create"}}
    for value in objects:
        if value["kind"] in ("ClusterRole", "ClusterRoleBinding"):
            yield f"{value['kind']} {value['metadata']['name']}"
        for given in value.get("rules", []) if value["kind"] == "Role" else []:
            for resource in given["resources"]:
                if given["apiGroups"] != [""] or not set(given["verbs"]) <= allowed.get(resource, set()):
                    yield f"{', '.join(given['verbs'])} on {resource}"
        for subject in value.get("subjects", []):
            known = [account for account in objects if is_account(account, subject)]
            if not known or known[0]["metadata"]["labels"]["app.kubernetes.io/component"] not in WITH_TOKEN:
                yield f"{subject['kind']} {subject['name']} has rights"


def is_account(value, subject):
    metadata = value["metadata"]
    return value["kind"] == subject["kind"] == "ServiceAccount" and (metadata["name"], metadata["namespace"]) == (
        subject["name"], subject["namespace"]
    )  # fmt: skip


@rule(SET_RULES)
def accounts_mount_no_token(objects):
    for value in objects:
        if value["kind"] == "ServiceAccount" and value.get("automountServiceAccountToken") is not False:
            yield f"{value['metadata']['name']} gives its token to every pod"


@rule(SET_RULES)
def sane_disruption_budgets(objects):
    everything = list(pods(objects))
    for value in objects:
        if value["kind"] != "PodDisruptionBudget":
            continue
        spec, name = value["spec"], value["metadata"]["name"]
        if "minAvailable" in spec or spec.get("maxUnavailable") in (None, 0, "0%", "0"):
            yield f"{name} can hold up a drain for ever"
        if not any(selects(spec["selector"], pod.labels) and pod.runs_for_ever for pod in everything):
            yield f"{name} protects nothing"


@rule(SET_RULES)
def references_lead_somewhere(objects):
    labels = [pod.labels for pod in pods(objects)]
    services = [value for value in objects if value["kind"] == "Service"]
    accounts = {value["metadata"]["name"] for value in objects if value["kind"] == "ServiceAccount"} | {"default"}
    named = {(value["kind"], value["metadata"]["name"]) for value in objects}
    for pod in pods(objects):
        if pod.spec.get("serviceAccountName", "default") not in accounts:
            yield f"{pod.name}: no such service account"
    for value in objects:
        name, spec = f"{value['kind']} {value['metadata']['name']}", value.get("spec", {})
        if value["kind"] == "Service" and not any(selects({"matchLabels": spec["selector"]}, found) for found in labels):
            yield f"{name} leads to no pod"
        if value["kind"] == "ServiceMonitor" and not any(selects(spec["selector"], service["metadata"]["labels"]) for service in services):
            yield f"{name} watches no service"
        if value["kind"] == "HorizontalPodAutoscaler":
            target = spec["scaleTargetRef"]
            scaled = [v for v in objects if (v["kind"], v["metadata"]["name"]) == (target["kind"], target["name"])]
            if not scaled or "replicas" in scaled[0]["spec"]:
                yield f"{name} scales nothing, or what has a fixed number"
        for path in [path for r in spec.get("rules", []) for path in r.get("http", {}).get("paths", [])]:
            if ("Service", path["backend"]["service"]["name"]) not in named:
                yield f"{name} leads to no service"
