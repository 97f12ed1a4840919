"""One or more ways to break each rule of policy.py. Each is tried on every pod, container or set that it fits."""

from pods import pods

# Rule, and what is done to a pod (of which `spec` is the part that is changed).
POD = []
# Rule, and what is done to a container.
CONTAINER = []
# Rule, and what is done to all objects together; false when it does not fit them.
SET = []


def breaks(table, rule):
    def add(function):
        table.append((rule, function))
        return function

    return add


def security(place):
    return place.setdefault("securityContext", {})


for field in ("hostNetwork", "hostPID", "hostIPC"):
    POD.append(("pss_host_namespaces", lambda pod, field=field: pod.spec.update({field: True})))
for volume in ({"hostPath": {"path": "/"}}, {"nfs": {"server": "nfs", "path": "/"}}):
    POD.append(("pss_volume_types", lambda pod, volume=volume: pod.spec.setdefault("volumes", []).append({"name": "x", **volume})))
POD += [
    ("pss_sysctls", lambda pod: security(pod.spec).update(sysctls=[{"name": "kernel.msgmax", "value": "1"}])),
    ("pss_app_armor", lambda pod: security(pod.spec).update(appArmorProfile={"type": "Unconfined"})),
    ("bounded_volumes", lambda pod: pod.spec.setdefault("volumes", []).append({"name": "x", "emptyDir": {}})),
    ("no_service_links", lambda pod: pod.spec.pop("enableServiceLinks")),
    ("no_service_links", lambda pod: pod.spec.update(enableServiceLinks=True)),
    ("token_only_where_named", lambda pod: pod.spec.pop("automountServiceAccountToken")),
    ("token_only_where_named", lambda pod: pod.spec.update(automountServiceAccountToken=not pod.spec["automountServiceAccountToken"])),
    ("own_account_with_token", lambda pod: pod.spec.update(automountServiceAccountToken=True, serviceAccountName="default")),
    ("network_policy_for_every_pod", lambda pod: pod.template["metadata"].update(labels={"app": "stray"})),
    ("references_lead_somewhere", lambda pod: pod.spec.update(serviceAccountName="nobody")),
    ("pss_run_as_user", lambda pod: security(pod.spec).update(runAsUser=0)),
    ("pss_run_as_non_root", lambda pod: security(pod.spec).pop("runAsNonRoot")),
    ("pss_seccomp", lambda pod: security(pod.spec).pop("seccompProfile")),
    ("pss_selinux", lambda pod: security(pod.spec).update(seLinuxOptions={"type": "spc_t"})),
    ("pss_host_process", lambda pod: security(pod.spec).update(windowsOptions={"hostProcess": True})),
]

CONTAINER += [
    ("pss_privileged", lambda c: security(c).update(privileged=True)),
    ("pss_host_process", lambda c: security(c).update(windowsOptions={"hostProcess": True})),
    ("pss_capabilities", lambda c: security(c).pop("capabilities")),
    ("pss_capabilities", lambda c: security(c)["capabilities"].update(drop=["NET_RAW"])),
    ("pss_capabilities", lambda c: security(c)["capabilities"].update(add=["SYS_ADMIN"])),
    ("pss_host_ports", lambda c: c.update(ports=[{"containerPort": 80, "hostPort": 80}])),
    ("pss_probe_hosts", lambda c: c.update(livenessProbe={"httpGet": {"host": "169.254.169.254", "port": 80}})),
    ("pss_selinux", lambda c: security(c).update(seLinuxOptions={"user": "system_u"})),
    ("pss_proc_mount", lambda c: security(c).update(procMount="Unmasked")),
    ("pss_seccomp", lambda c: security(c).update(seccompProfile={"type": "Unconfined"})),
    ("pss_privilege_escalation", lambda c: security(c).pop("allowPrivilegeEscalation")),
    ("pss_privilege_escalation", lambda c: security(c).update(allowPrivilegeEscalation=True)),
    ("pss_run_as_non_root", lambda c: security(c).update(runAsNonRoot=False)),
    ("pss_run_as_user", lambda c: security(c).update(runAsUser=0)),
    ("pss_app_armor", lambda c: security(c).update(appArmorProfile={"type": "Unconfined"})),
    ("read_only_root", lambda c: security(c).pop("readOnlyRootFilesystem")),
    ("read_only_root", lambda c: security(c).update(readOnlyRootFilesystem=False)),
    ("limits_and_requests", lambda c: c.pop("resources")),
    ("limits_and_requests", lambda c: c["resources"]["limits"].pop("memory")),
    ("limits_and_requests", lambda c: c["resources"]["requests"].pop("cpu")),
    ("pinned_image", lambda c: c.update(image="registry.example.com:5000/skillbox:latest")),
    ("pinned_image", lambda c: c.update(image="registry.example.com:5000/skillbox")),
    ("secrets_by_reference", lambda c: c.setdefault("env", []).append({"name": "SKILLBOX_SECRET", "value": "x"})),
    ("secrets_by_reference", lambda c: c.setdefault("env", []).append({"name": "POSTGRES_PASSWORD", "value": "x"})),
    ("secrets_by_reference", lambda c: c.update(envFrom=[{"secretRef": {"name": "skillbox"}}])),
]


def of_kind(objects, kind):
    return [value for value in objects if value["kind"] == kind]


def serving(objects):
    return [pod for pod in pods(objects) if pod.runs_for_ever]


for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
    SET.append(("probes", lambda objects, probe=probe: [pod.spec["containers"][0].pop(probe) for pod in serving(objects)]))


@breaks(SET, "time_to_drain")
def a_short_grace(objects):
    for pod in serving(objects):
        pod.spec["terminationGracePeriodSeconds"] = 30
    return True


@breaks(SET, "time_to_drain")
def no_pause_before_the_end(objects):
    return [pod.spec["containers"][0].pop("lifecycle", None) for pod in serving(objects)]


@breaks(SET, "network_policy_for_every_pod")
def no_deny_all(objects):
    gone = [value for value in of_kind(objects, "NetworkPolicy") if value["metadata"]["name"].endswith("-deny-all")]
    for value in gone:
        objects.remove(value)
    return gone


def ways_to(objects, *names):
    found = [value for value in of_kind(objects, "NetworkPolicy") if value["metadata"]["name"].endswith(names)]
    return [rule for value in found for rule in value["spec"]["egress"]]


for name in ("-to-database", "-to-object-store", "-dns", "-api", "-worker"):
    SET.append(("ways_out_name_their_peers", lambda objects, name=name: [rule.pop("to") for rule in ways_to(objects, name)]))
for name in ("-to-database", "-to-object-store", "-api"):
    # What the chart rendered while peers were optional.
    SET.append(("private_addresses_are_closed_to_the_api", lambda objects, name=name: [rule.pop("to") for rule in ways_to(objects, name)]))


@breaks(SET, "ways_out_name_their_peers")
def an_empty_peer(objects):
    return [rule.update(to=[{}]) for rule in ways_to(objects, "-to-database")]


@breaks(SET, "private_addresses_are_closed_to_the_api")
def a_block_of_everything(objects):
    return [rule.update(to=[{"ipBlock": {"cidr": "0.0.0.0/0"}}]) for rule in ways_to(objects, "-to-object-store")]


@breaks(SET, "private_addresses_are_closed_to_the_api")
def webhooks_to_private_addresses(objects):
    return [rule["to"][0]["ipBlock"].pop("except") for rule in ways_to(objects, "-api") if "except" in rule["to"][0]["ipBlock"]]


@breaks(SET, "sandboxes_have_no_network")
def no_deny_all_of_sandboxes(objects):
    gone = [value for value in of_kind(objects, "NetworkPolicy") if value["metadata"]["name"] == "deny-all"]
    for value in gone:
        objects.remove(value)
    return gone


@breaks(SET, "sandboxes_have_no_network")
def a_way_out(objects):
    found = [value for value in of_kind(objects, "NetworkPolicy") if value["metadata"]["name"] == "deny-all"]
    for value in found:
        value["spec"]["egress"] = [{}]
    return found


@breaks(SET, "sandboxes_have_their_own_namespace")
def a_lax_namespace(objects):
    return [value["metadata"]["labels"].pop("pod-security.kubernetes.io/enforce") for value in of_kind(objects, "Namespace")]


@breaks(SET, "sandboxes_have_their_own_namespace")
def sandboxes_beside_the_service(objects):
    for value in of_kind(objects, "RoleBinding"):
        value["metadata"]["namespace"] = "skillbox"
    return True


@breaks(SET, "least_rights")
def rights_to_secrets(objects):
    return [value["rules"].append({"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}) for value in of_kind(objects, "Role")]


@breaks(SET, "least_rights")
def rights_to_exec(objects):
    return [
        value["rules"].append({"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create"]}) for value in of_kind(objects, "Role")
    ]


@breaks(SET, "least_rights")
def any_verb(objects):
    return [value["rules"][0].update(verbs=["*"]) for value in of_kind(objects, "Role")]


@breaks(SET, "least_rights")
def rights_of_the_api(objects):
    bound = of_kind(objects, "RoleBinding")
    return [value["subjects"].append({**value["subjects"][0], "name": "skillbox-api"}) for value in bound]


@breaks(SET, "least_rights")
def rights_of_every_account(objects):
    group = {"kind": "Group", "name": "system:authenticated", "apiGroup": "rbac.authorization.k8s.io"}
    return [value["subjects"].append(group) for value in of_kind(objects, "RoleBinding")]


@breaks(SET, "least_rights")
def rights_everywhere(objects):
    return [value.update(kind="ClusterRole") for value in of_kind(objects, "Role")]


@breaks(SET, "accounts_mount_no_token")
def a_generous_account(objects):
    return [value.pop("automountServiceAccountToken") for value in of_kind(objects, "ServiceAccount")]


@breaks(SET, "sane_disruption_budgets")
def a_budget_that_allows_nothing(objects):
    return [value["spec"].update(maxUnavailable=0) for value in of_kind(objects, "PodDisruptionBudget")]


@breaks(SET, "sane_disruption_budgets")
def a_budget_of_all(objects):
    return [value["spec"].update(minAvailable="100%") for value in of_kind(objects, "PodDisruptionBudget")]


@breaks(SET, "sane_disruption_budgets")
def a_budget_of_nothing(objects):
    return [value["spec"].update(selector={"matchLabels": {"app": "x"}}) for value in of_kind(objects, "PodDisruptionBudget")]


@breaks(SET, "references_lead_somewhere")
def a_service_for_nobody(objects):
    return [value["spec"].update(selector={"app": "x"}) for value in of_kind(objects, "Service")]


@breaks(SET, "references_lead_somewhere")
def a_monitor_of_nothing(objects):
    return [value["spec"].update(selector={"matchLabels": {"app": "x"}}) for value in of_kind(objects, "ServiceMonitor")]


@breaks(SET, "references_lead_somewhere")
def an_autoscaler_of_nothing(objects):
    return [value["spec"]["scaleTargetRef"].update(name="x") for value in of_kind(objects, "HorizontalPodAutoscaler")]


@breaks(SET, "references_lead_somewhere")
def an_ingress_to_nowhere(objects):
    paths = [path for value in of_kind(objects, "Ingress") for r in value["spec"]["rules"] for path in r["http"]["paths"]]
    return [path["backend"]["service"].update(name="x") for path in paths]
