"""Every rendered object satisfies the policy, and every rule of it can fail."""

import copy
import json
import unittest

import mutations
import policy
import validation
from pods import pods
from support import OVERLAYS, ROOT, SETS, built, rendered


def everything():
    """What is looked at: the chart with every set of values, and the overlays."""
    for name, path in SETS.items():
        yield f"values/{name}", rendered(path)
    for overlay in OVERLAYS:
        yield f"overlays/{overlay}", built(f"overlays/{overlay}")


class Policy(unittest.TestCase):
    def test_every_rendering_satisfies_it(self):
        for name, objects in everything():
            with self.subTest(name):
                self.assertGreaterEqual(len(list(pods(objects))), 3)
                self.assertEqual(policy.check(objects), [])

    def test_the_pods_of_sandboxes_satisfy_it(self):
        """Those are the launcher's; its own tests keep a snapshot of what it asks for."""
        kept = list((ROOT / "crates" / "sandbox" / "src" / "kubernetes" / "snapshots").glob("*.snap"))
        pods_asked_for = [pod for path in kept if (pod := snapshot(path)).get("kind") == "Pod"]
        self.assertGreater(len(pods_asked_for), 0)
        # Their network policy selects everything in their namespace, and they have nothing else around them.
        around = [value for value in rendered(SETS["minimal"]) if value["metadata"].get("namespace") == "skillbox-sandboxes"]
        for pod in pods_asked_for:
            self.assertEqual(list(validation.errors([pod])), [])
            pod["metadata"]["namespace"] = "skillbox-sandboxes"
            rules = {"sandboxes_have_their_own_namespace", "least_rights"}
            self.assertEqual([finding for finding in policy.check([pod, *around]) if finding.rule not in rules], [])

    def test_every_mutation_is_found(self):
        broken = set()
        for name in ("trial", "prod", "external"):
            objects = rendered(SETS[name])
            for rule, where, mutant in mutants(objects):
                with self.subTest(f"{name}: {where} against {rule}"):
                    self.assertIn(rule, {finding.rule for finding in policy.check(mutant)})
                broken.add(rule)
        rules = {*policy.POD_RULES, *policy.CONTAINER_RULES, *policy.SET_RULES}
        self.assertEqual(broken, rules, "every rule has a mutation that breaks it")


def snapshot(path):
    """What insta keeps after its own lines."""
    return json.loads(path.read_text().split("---\n", 2)[2])


def mutants(objects):
    """Every mutation, each on every pod, container or set that it fits."""
    for index, pod in enumerate(pods(objects)):
        for rule, change in mutations.POD:
            mutant = copy.deepcopy(objects)
            change(list(pods(mutant))[index])
            yield rule, pod.name, mutant
        for place, container in enumerate(pod.containers):
            for rule, change in mutations.CONTAINER:
                mutant = copy.deepcopy(objects)
                change(list(pods(mutant))[index].containers[place])
                yield rule, f"{pod.name} {container['name']}", mutant
    for rule, change in mutations.SET:
        mutant = copy.deepcopy(objects)
        if change(mutant):
            yield rule, getattr(change, "__name__", rule), mutant


if __name__ == "__main__":
    unittest.main()
