"""The kustomizations: made from the chart, valid, and with the same result as the chart."""

import sys
import unittest

import validation
from pods import pods
from support import K8S, OVERLAYS, SETS, built, named, objects, rendered, tool

sys.path.insert(0, str(K8S))
import generate  # noqa: E402

HELMS_LABELS = ("helm.sh/chart", "app.kubernetes.io/managed-by")


def without_helm(value):
    """An object without what only Helm understands."""
    metadata = value["metadata"]
    for key in HELMS_LABELS:
        metadata.get("labels", {}).pop(key, None)
    annotations = {key: text for key, text in metadata.pop("annotations", {}).items() if not key.startswith("helm.sh/")}
    if annotations:
        metadata["annotations"] = annotations
    return value


def comparable(objects):
    """By name, with lists that mean the same in any order sorted."""
    result = {}
    for value in objects:
        result[named(value)] = in_order(without_helm(value))
    return result


def in_order(value):
    if isinstance(value, dict):
        return {key: in_order(item) for key, item in value.items()}
    if isinstance(value, list):
        items = [in_order(item) for item in value]
        # Variables refer to no other here, so their order has no meaning.
        is_env = items and all(isinstance(item, dict) and {"name"} < set(item) <= {"name", "value", "valueFrom"} for item in items)
        return sorted(items, key=lambda item: item["name"]) if is_env else items
    return value


class Kustomize(unittest.TestCase):
    maxDiff = None

    def test_the_base_is_made_from_the_chart(self):
        for path, text in generate.files().items():
            with self.subTest(path):
                self.assertEqual((K8S / path).read_text(), text, "UPDATE=1 scripts/test-deploy.sh")

    def test_every_file_is_used(self):
        for kustomization in K8S.rglob("kustomization.yaml"):
            text = kustomization.read_text()
            for file in kustomization.parent.glob("*.yaml"):
                with self.subTest(str(file)):
                    self.assertTrue(file == kustomization or f" {file.name}" in text)

    def test_objects_fit_the_schemas_of_kubernetes(self):
        for directory in ("base", *(f"overlays/{name}" for name in OVERLAYS)):
            with self.subTest(directory):
                self.assertEqual(list(validation.errors(built(directory))), [])

    def test_overlays_give_what_the_chart_gives(self):
        for overlay in OVERLAYS:
            chart, kustomize = comparable(rendered(SETS[overlay])), comparable(built(f"overlays/{overlay}"))
            # Helm makes the namespace of a release itself.
            self.assertIn("Namespace /skillbox", kustomize)
            del kustomize["Namespace /skillbox"]
            self.assertEqual(sorted(chart), sorted(kustomize), overlay)
            for name in chart:
                with self.subTest(f"{overlay}: {name}"):
                    self.assertEqual(kustomize[name], chart[name])

    def test_the_made_secret_has_every_key_that_is_asked_for(self):
        secrets = [objects(tool(str(K8S / "make-secrets.sh")))[0] for _ in range(2)]
        self.assertEqual(list(validation.errors(secrets)), [])
        asked = set()
        for pod in pods(built("overlays/dev")):
            for container in pod.containers:
                references = [v["valueFrom"]["secretKeyRef"] for v in container["env"] if "valueFrom" in v]
                asked |= {(reference["name"], reference["key"]) for reference in references}
        first, second = (secret["stringData"] for secret in secrets)
        self.assertEqual(asked, {("skillbox", key) for key in first})
        for key in first:
            self.assertNotEqual(first[key], second[key])
        self.assertRegex(first["SKILLBOX_BOOTSTRAP_KEY"], "^sk-[0-9a-f]{64}$")


if __name__ == "__main__":
    unittest.main()
