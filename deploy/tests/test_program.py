"""What the manifests tell the program is what the program understands: its settings, its commands, and the skill of `helm test`."""

import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

from pods import pods
from support import OVERLAYS, SETS, built, rendered

PROGRAM = os.environ["SKILLBOX_BIN"]
# What Secrets would hold, by the variable that takes it.
SECRETS = {
    "SKILLBOX_SECRET": "0123456789abcdef0123456789abcdef",
    "SKILLBOX_BOOTSTRAP_KEY": "sk-0123456789abcdef0123456789abcdef",
    "SKILLBOX_DB_DSN": "postgres://skillbox:password@db.example.com/skillbox",
    "SKILLBOX_S3_ACCESS_KEY": "access",
    "SKILLBOX_S3_SECRET_KEY": "0123456789abcdef",
    "SKILLBOX_METRICS_TOKEN": "0123456789abcdef0123456789abcdef",
    "SKILLBOX_API_KEY": "sk-0123456789abcdef0123456789abcdef",
}


def environment(container):
    """The container's environment as it would be in the cluster, and the image's own."""
    given = {variable["name"]: variable.get("value", SECRETS.get(variable["name"])) for variable in container["env"]}
    return {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "SKILLBOX_DATA_DIR": "/nonexistent/skillbox", **given}


def program(arguments, environment, check=True):
    return subprocess.run([PROGRAM, *arguments], env=environment, capture_output=True, text=True, check=check, timeout=120)


def not_understood(variables):
    """The variables that the program refuses or does not know, as text; empty when all is well."""
    ran = program(["config", "--output", "json"], variables, check=False)
    if ran.returncode != 0:
        return ran.stderr
    taken = {setting["name"] for setting in json.loads(ran.stdout) if setting["source"] == "environment"}
    return " ".join(name for name in variables if name.startswith("SKILLBOX_") and name not in taken)


def containers(component):
    """The container of a component in every rendering, with where it is from."""
    renderings = {f"values/{name}": rendered(path) for name, path in SETS.items()}
    renderings |= {f"overlays/{name}": built(f"overlays/{name}") for name in OVERLAYS}
    for name, objects in renderings.items():
        for pod in pods(objects):
            if pod.labels["app.kubernetes.io/component"] == component:
                yield name, pod.spec["containers"][0]


class Settings(unittest.TestCase):
    def test_the_program_takes_every_variable(self):
        for component in ("api", "worker", "migrate"):
            found = list(containers(component))
            self.assertEqual(len(found), len(SETS) + len(OVERLAYS), component)
            for name, container in found:
                with self.subTest(f"{name} {component}"):
                    self.assertEqual(not_understood(environment(container)), "")

    def test_a_misspelt_variable_would_be_found(self):
        _, container = next(containers("worker"))
        variables = environment(container)
        self.assertEqual(not_understood(variables), "")
        for name in [name for name in variables if name.startswith("SKILLBOX_")]:
            with self.subTest(name):
                misspelt = {key: value for key, value in variables.items() if key != name} | {name + "S": variables[name]}
                self.assertNotEqual(not_understood(misspelt), "")

    def test_roles(self):
        for component in ("api", "worker"):
            for name, container in containers(component):
                with self.subTest(f"{name} {component}"):
                    self.assertEqual(environment(container)["SKILLBOX_ROLE"], component)

    def test_only_the_api_has_the_first_key(self):
        for component in ("worker", "migrate"):
            for name, container in containers(component):
                with self.subTest(f"{name} {component}"):
                    self.assertNotIn("SKILLBOX_BOOTSTRAP_KEY", environment(container))

    def test_the_commands_exist(self):
        for component in ("api", "worker", "migrate"):
            _, container = next(containers(component))
            with self.subTest(component):
                program([*container["args"], "--help"], environment(container))


class HelmTest(unittest.TestCase):
    """The pod of `helm test`, step by step, against a server on this machine."""

    def test_it_publishes_and_runs_its_skill(self):
        objects = rendered(SETS["minimal"])
        pod = next(value for value in objects if value["kind"] == "Pod")
        files = next(value["data"] for value in objects if value["kind"] == "ConfigMap")
        with tempfile.TemporaryDirectory() as place, Server(pathlib.Path(place)) as url:
            directory = pathlib.Path(place) / "skill"
            directory.mkdir()
            mounts = [mount for mount in pod["spec"]["initContainers"][0]["volumeMounts"] if mount["name"] == "skill"]
            for mount in mounts:
                (directory / mount["subPath"]).write_text(files[mount["subPath"]])
            self.assertEqual({mount["mountPath"] for mount in mounts}, {f"/skill/{name}" for name in files})
            # Twice, as a test is repeated after an upgrade.
            for _ in range(2):
                for container in pod["spec"]["initContainers"] + pod["spec"]["containers"]:
                    arguments = [str(directory) if argument == "/skill" else argument for argument in container["args"]]
                    ran = program(arguments, environment(container) | {"SKILLBOX_SERVER_URL": url})
            self.assertEqual(json.loads(ran.stdout), {"input": {"greeting": "hello"}})


class Server:
    """An embedded server, until the block ends."""

    def __init__(self, place):
        self.variables = {
            "PATH": os.environ["PATH"],
            "HOME": str(place),
            "SKILLBOX_DATA_DIR": str(place / "data"),
            "SKILLBOX_API_PORT": "0",
            "SKILLBOX_BOOTSTRAP_KEY": SECRETS["SKILLBOX_API_KEY"],
        }

    def __enter__(self):
        # What it says later is little, and stays in the pipe.
        self.process = subprocess.Popen([PROGRAM, "serve"], env=self.variables, stderr=subprocess.PIPE, text=True)
        said = []
        for line in self.process.stderr:
            said.append(line)
            if found := re.search(r"serves on (http://127\.0\.0\.1:\d+)", line):
                return found[1]
        self.__exit__()
        raise AssertionError("the server did not start: " + "".join(said))

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(timeout=60)
        self.process.stderr.close()


if __name__ == "__main__":
    unittest.main()
