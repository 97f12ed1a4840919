"""Extracts the pods that a set of objects creates, for all kinds of controllers."""

from dataclasses import dataclass

from support import named

CONTROLLERS = ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job")


@dataclass
class Pod:
    """A pod as its controller would make it. `template` and `spec` are parts of `owner`, not copies."""

    owner: dict
    template: dict
    name: str
    namespace: str

    @property
    def spec(self):
        return self.template["spec"]

    @property
    def labels(self):
        return self.template["metadata"].get("labels", {})

    @property
    def runs_for_ever(self):
        return self.owner["kind"] not in ("Job", "CronJob", "Pod")

    @property
    def containers(self):
        return self.spec.get("initContainers", []) + self.spec["containers"]


def pods(objects):
    for owner in objects:
        if owner["kind"] == "Pod":
            template = owner
        elif owner["kind"] in CONTROLLERS:
            template = owner["spec"]["template"]
        elif owner["kind"] == "CronJob":
            template = owner["spec"]["jobTemplate"]["spec"]["template"]
        else:
            continue
        yield Pod(owner, template, named(owner), owner["metadata"].get("namespace", ""))


def selects(selector, labels):
    """Whether a label selector matches these labels. An empty selector matches everything."""
    matches = all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items())
    return matches and all(holds(expression, labels) for expression in selector.get("matchExpressions", []))


def holds(expression, labels):
    value = labels.get(expression["key"])
    match expression["operator"]:
        case "In":
            return value in expression["values"]
        case "NotIn":
            return value not in expression["values"]
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    raise ValueError(f"unknown operator {expression['operator']}")
