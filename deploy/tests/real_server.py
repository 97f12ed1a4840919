"""A real API server validates every object in a dry run. Nothing is stored.

Run by name, because it needs the cluster of scripts/test-cluster.sh:

    export $(scripts/test-cluster.sh start) && scripts/test-deploy.sh real_server

That cluster is Kubernetes 1.20, so what came later is taken back first. It knows more than a schema does: which fields contradict each
other, which names are taken twice, which selectors do not fit."""

import copy
import os
import subprocess
import unittest

import yaml

from support import OVERLAYS, SETS, built, named, rendered

OLDER = {"policy/v1": "policy/v1beta1", "autoscaling/v2": "autoscaling/v2beta2"}
# The namespaces of that cluster; a dry run needs them to exist.
EXISTING = {"skillbox", "skillbox-sandboxes"}


def as_of_1_20(value):
    """The object without what 1.20 does not know; None when it does not know its kind."""
    if value["apiVersion"].startswith("monitoring."):
        return None
    value = copy.deepcopy(value)
    value["apiVersion"] = OLDER.get(value["apiVersion"], value["apiVersion"])
    value["metadata"].setdefault("namespace", "")
    if value["metadata"]["namespace"] not in EXISTING | {""}:
        value["metadata"]["namespace"] = "skillbox-sandboxes"
    value["spec"] = value.get("spec", {})
    value["spec"].pop("unhealthyPodEvictionPolicy", None)
    for container in value["spec"].get("template", {}).get("spec", {}).get("containers", []):
        container.pop("lifecycle", None)
    return {key: part for key, part in value.items() if part != {}}


def refusals(objects):
    """What the server says against them; empty when it would take them all."""
    command = [os.environ["SKILLBOX_TEST_CLUSTER_KUBECTL"], "--kubeconfig", os.environ["SKILLBOX_TEST_CLUSTER_ADMIN"]]
    # The client's own check is of its own version; the server's is what counts.
    apply = ["apply", "--dry-run=server", "--validate=false", "--filename", "-"]
    ran = subprocess.run([*command, *apply], input=yaml.safe_dump_all(objects), capture_output=True, text=True)
    said = [line for line in ran.stderr.splitlines() if not line.startswith("Warning")]
    return said or ([] if ran.returncode == 0 else [f"kubectl ended with {ran.returncode}"])


class RealServer(unittest.TestCase):
    maxDiff = None

    def test_it_would_take_every_object(self):
        renderings = {f"values/{name}": rendered(path) for name, path in SETS.items()}
        renderings |= {f"overlays/{name}": built(f"overlays/{name}") for name in OVERLAYS}
        for name, objects in renderings.items():
            with self.subTest(name):
                # A policy of that cluster forbids pods with a ConfigMap, for every account.
                known = [known for value in objects if value["kind"] != "Pod" and (known := as_of_1_20(value))]
                self.assertGreater(len(known), 20)
                self.assertEqual(refusals(known), [])

    def test_it_refuses_what_only_it_can_see(self):
        deployment = next(value for value in rendered(SETS["minimal"]) if value["kind"] == "Deployment")
        broken = as_of_1_20(deployment)
        broken["spec"]["selector"]["matchLabels"]["app.kubernetes.io/component"] = "other"
        self.assertIn("selector", " ".join(refusals([broken])), named(deployment))


if __name__ == "__main__":
    unittest.main()
