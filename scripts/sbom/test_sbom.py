"""Tests that the SBOM is valid and lists exactly the released crates."""

import json
import tomllib
import unittest

import sbom

ROOT = sbom.ROOT


class Sbom(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.text = sbom.make()
        cls.document = json.loads(cls.text)
        cls.components = {(one["name"], one["version"]): one for one in cls.document["components"]}

    def of(self, name):
        return [one for (found, _), one in self.components.items() if found == name]

    def test_it_is_valid_and_a_broken_one_is_not(self):
        self.assertIsNone(sbom.problem(self.text))
        small = {**self.document, "components": [], "dependencies": []}
        self.assertIsNone(sbom.problem(json.dumps(small)))
        for change in ({"bomFormat": "SPDX"}, {"components": [{"type": "library"}]}, {"no_such_field": 1}):
            with self.subTest(change):
                self.assertIsNotNone(sbom.problem(json.dumps({**small, **change})))

    def test_known_crates_have_version_licence_and_checksum(self):
        checksums = sbom.locked()
        for name in ("tokio", "axum", "sqlx", "rustls"):
            (one,) = self.of(name)
            self.assertEqual(one["hashes"], [{"alg": "SHA-256", "content": checksums[name, one["version"]]}])
            self.assertEqual(one["purl"], f"pkg:cargo/{name}@{one['version']}")
            self.assertEqual(one["scope"], "required")
            self.assertTrue(one["licenses"])

    def test_every_crate_is_locked_or_ours(self):
        ours = {path.parent.name for path in (ROOT / "crates").glob("*/Cargo.toml")}
        locked = sbom.locked()
        self.assertGreater(len(self.components), 200)
        for name, version in self.components:
            self.assertTrue((name, version) in locked or name in ours, name)

    def test_what_only_tests_use_is_not_listed(self):
        # Control: the lock file contains these crates.
        locked = {name for name, _ in sbom.locked()}
        for name in ("assert_cmd", "proptest", "insta"):
            self.assertIn(name, locked)
            self.assertEqual(self.of(name), [])
        self.assertEqual(self.of("cluster"), [])
        self.assertEqual([one["scope"] for one in self.of("cc")], ["excluded"], "it only runs while we build")

    def test_every_component_is_reached_from_the_program(self):
        graph = {one["ref"]: one.get("dependsOn", []) for one in self.document["dependencies"]}
        found, waiting = {"skillbox"}, ["skillbox"]
        while waiting:
            for ref in set(graph[waiting.pop()]) - found:
                found.add(ref)
                waiting.append(ref)
        self.assertEqual(found - {"skillbox"}, {one["bom-ref"] for one in self.document["components"]})

    def test_the_sdks_have_nothing_to_list(self):
        python = tomllib.loads((ROOT / "sdks" / "python" / "pyproject.toml").read_text())["project"]
        self.assertEqual(python["dependencies"], [])
        typescript = json.loads((ROOT / "sdks" / "typescript" / "package.json").read_text())
        self.assertNotIn("dependencies", typescript)
        self.assertNotIn("require", (ROOT / "sdks" / "go" / "go.mod").read_text())


if __name__ == "__main__":
    unittest.main()
