"""The chart, rendered by the real Helm: lint, schemas of Kubernetes, snapshots, refusals."""

import base64
import copy
import difflib
import json
import pathlib
import shutil
import tempfile
import unittest

import jsonschema
import yaml

import settings
import validation
from pods import pods
from support import CHART, ROOT, SETS, TESTS, UPDATE, ToolError, helm, named, objects, rendered, rendered_text

BASIC = str(SETS["minimal"])


def as_snapshot(objects):
    """The objects as stable text. What is random is masked, and must be there."""
    objects = copy.deepcopy(objects)
    for value in objects:
        if value["kind"] == "Secret":
            value["data"] = {key: f"<{len(base64.b64decode(text))} bytes>" for key, text in value["data"].items()}
    return yaml.safe_dump_all(sorted(objects, key=named), sort_keys=True, width=200)


class Chart(unittest.TestCase):
    def test_lint(self):
        for name, path in SETS.items():
            with self.subTest(name):
                helm("lint", "--strict", str(CHART), "--namespace", "skillbox", "--values", str(path))

    def test_objects_fit_the_schemas_of_kubernetes(self):
        for name, path in SETS.items():
            with self.subTest(name):
                self.assertEqual(list(validation.errors(rendered(path))), [])

    def test_an_object_that_does_not_fit_is_found(self):
        objects = rendered(SETS["prod"])
        for value in objects:
            with self.subTest(named(value)):
                broken = copy.deepcopy(value)
                broken["no_such_field"] = 1
                self.assertNotEqual(list(validation.errors([broken])), [])

    def test_snapshots(self):
        """`minimal` is kept whole, the others as what is different from it. UPDATE=1 writes them again."""
        whole = as_snapshot(rendered(SETS["minimal"]))
        expected = {"minimal.yaml": whole}
        for name, path in SETS.items():
            if name != "minimal":
                lines = as_snapshot(rendered(path)).splitlines()
                difference = difflib.unified_diff(whole.splitlines(), lines, "minimal", name, lineterm="", n=4)
                expected[f"{name}.diff"] = "\n".join(difference) + "\n"
        kept = {path.name: path for path in (TESTS / "snapshots").iterdir()}
        if UPDATE:
            for path in kept.values():
                path.unlink()
            for name, text in expected.items():
                (TESTS / "snapshots" / name).write_text(text)
            return
        self.assertEqual(sorted(kept), sorted(expected))
        for name, text in expected.items():
            with self.subTest(name):
                self.assertEqual(kept[name].read_text(), text, f"if this is right: UPDATE=1 scripts/test-deploy.sh, and look at {name}")

    def test_another_release_shares_no_name(self):
        def names(release):
            text = helm("template", release, str(CHART), "--namespace", "skillbox", "--values", str(SETS["trial"]))
            return {named(value) for value in objects(text) if value["metadata"]["name"] != "deny-all"}

        self.assertEqual(names("one") & names("two"), set())

    def test_generated_secrets_are_random(self):
        def data():
            return next(value["data"] for value in objects(rendered_text(SETS["trial"])) if value["kind"] == "Secret")

        first, second = data(), data()
        self.assertEqual(set(first), set(second))
        for key in first:
            self.assertNotEqual(first[key], second[key], key)
            self.assertGreaterEqual(len(base64.b64decode(first[key])), 16, key)

    def test_an_upgrade_never_makes_new_secrets(self):
        # `helm template` sees no cluster, so it sees no Secret either.
        with self.assertRaisesRegex(ToolError, "would lock every client out"):
            rendered_text(SETS["trial"], "--is-upgrade")

    def test_migrations_come_before_everything_else(self):
        def hooks(name):
            jobs = [value for value in rendered(SETS[name]) if value["kind"] == "Job"]
            return [job["metadata"]["annotations"]["helm.sh/hook"] for job in jobs]

        self.assertEqual(hooks("minimal"), ["pre-install,pre-upgrade"])
        self.assertEqual(hooks("trial"), ["pre-upgrade"], "a hook cannot wait for a database of the same release")

    def test_a_hook_before_the_installation_needs_only_hooks(self):
        for name, path in SETS.items():
            objects = rendered(path)
            plain = {(v["kind"], v["metadata"]["name"]) for v in objects if "helm.sh/hook" not in v["metadata"].get("annotations", {})}
            for pod in pods(objects):
                if "pre-install" not in pod.owner["metadata"].get("annotations", {}).get("helm.sh/hook", ""):
                    continue
                with self.subTest(f"{name} {pod.name}"):
                    self.assertEqual(needs(pod) & plain, set())

    def test_a_worker_has_the_rights_that_the_launcher_is_tested_with(self):
        tested = next(value for value in objects((ROOT / "scripts" / "test-cluster.yaml").read_text()) if value["kind"] == "Role")
        ours = next(value for value in rendered(SETS["minimal"]) if value["kind"] == "Role")
        self.assertEqual(ours["rules"], tested["rules"])

    def test_the_ingress_lets_the_largest_upload_in(self):
        """And little more: what is larger is refused before it reaches us."""
        ingress = next(value for value in rendered(SETS["prod"]) if value["kind"] == "Ingress")
        limit = ingress["metadata"]["annotations"]["nginx.ingress.kubernetes.io/proxy-body-size"]
        largest = max(int(settings.default(name)) for name in ("max_file_size", "max_skill_size", "max_body_size"))
        self.assertEqual(limit, f"{largest // 2**20 + 1}m")

    def test_settings_are_those_of_the_program(self):
        text = settings.schema_with(settings.allowed())
        self.assertEqual(settings.SCHEMA.read_text(), text, "docs/configuration.md has other settings: UPDATE=1 scripts/test-deploy.sh")


class Notes(unittest.TestCase):
    def notes(self, values):
        """NOTES.txt as Helm shows it. Only an installation renders it, so a copy of the chart has it as a template too."""
        with tempfile.TemporaryDirectory() as place:
            copied = shutil.copytree(CHART, f"{place}/skillbox")
            shutil.move(f"{copied}/templates/NOTES.txt", f"{copied}/notes")
            template = 'kind: Notes\nmetadata: { name: notes }\ntext: {{ tpl (.Files.Get "notes") . | toJson }}\n'
            pathlib.Path(copied, "templates", "notes.yaml").write_text(template)
            text = helm("template", "skillbox", str(copied), "--namespace", "skillbox", "--values", str(values))
        return next(value["text"] for value in objects(text) if value["kind"] == "Notes")

    def test_they_say_what_to_do_next(self):
        trial, production = self.notes(SETS["trial"]), self.notes(SETS["prod"])
        for said in (trial, production):
            self.assertIn("helm --namespace skillbox test skillbox", said)
            self.assertIn("get secret skillbox", said)
        self.assertIn("FOR TRIALS ONLY: this release has its own Postgres and MinIO", trial)
        self.assertIn("port-forward service/skillbox-api 8080", trial)
        self.assertIn("share the kernel", trial)
        for word in ("TRIALS", "port-forward", "share the kernel", "named by its tag", "Keep a copy"):
            self.assertNotIn(word, production)
        self.assertIn("SKILLBOX_SERVER_URL=https://skills.example.com", production)


def needs(pod):
    """What must exist before a pod can start."""
    found = {("ServiceAccount", pod.spec["serviceAccountName"])}
    for container in pod.containers:
        for variable in container.get("env", []):
            if "valueFrom" in variable:
                found.add(("Secret", variable["valueFrom"]["secretKeyRef"]["name"]))
    return found


class Refusals(unittest.TestCase):
    """Values that are wrong are refused, with the reason."""

    def refused(self, values, reason):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            yaml.safe_dump(values, file)
            file.flush()
            with self.assertRaisesRegex(ToolError, reason):
                rendered_text(BASIC, "--values", file.name)

    def test_all(self):
        cases = yaml.safe_load((TESTS / "refusals.yaml").read_text())
        self.assertGreater(len(cases), 30)
        for case in cases:
            with self.subTest(str(case["values"])):
                self.refused(case["values"], case["says"])

    def test_no_values_at_all_are_refused(self):
        with self.assertRaisesRegex(ToolError, "there is no Secret"):
            helm("template", "skillbox", str(CHART))

    def test_an_unknown_name_is_refused_everywhere(self):
        """Below every object whose names are fixed, one more name is an error."""
        # Helm applies this schema, as the cases above show; running it for every object would take a minute.
        schema = jsonschema.Draft7Validator(json.loads(settings.SCHEMA.read_text()))
        defaults = yaml.safe_load((CHART / "values.yaml").read_text())
        self.assertEqual(list(schema.iter_errors(defaults)), [])
        places = list(fixed_places(defaults))
        self.assertGreater(len(places), 25)
        for place in places:
            with self.subTest(".".join(place)):
                values = copy.deepcopy(defaults)
                inner = values
                for name in place:
                    inner = inner[name]
                inner["no_such_value"] = 1
                self.assertIn("no_such_value", " ".join(error.message for error in schema.iter_errors(values)))


# Objects in which names are the user's to choose.
FREE = {"annotations", "podAnnotations", "podLabels", "nodeSelector", "affinity", "labels", "queueMetricLabels", "hard"}


def fixed_places(values, place=()):
    if place and place[-1] in FREE:
        return
    yield place
    for name, value in values.items():
        if isinstance(value, dict):
            yield from fixed_places(value, (*place, name))


if __name__ == "__main__":
    unittest.main()
