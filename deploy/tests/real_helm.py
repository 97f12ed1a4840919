"""Helm installs, upgrades and removes for real what depends on Helm's own doing: hooks and kept Secrets.

Run by name, like real_server. The cluster's pods have no network and it is older than the chart asks for, so the chart is cut down to
accounts, the Secret and the migration, and the database is a file in the pod."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import yaml

from support import CHART, ToolError, helm, objects, tool

NAMESPACE = "skillbox-helm-test"
IMAGE = "skillbox/skillbox:helm-test"
KEPT = ("secret.yaml", "service-accounts.yaml", "migrate.yaml")
# The pods of that cluster must be admitted by a policy, which an account must be allowed to use.
ADMITTED = f"""
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{name: restricted-pods, namespace: {NAMESPACE}}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: restricted-pods}}
subjects: [{{apiGroup: rbac.authorization.k8s.io, kind: Group, name: 'system:serviceaccounts:{NAMESPACE}'}}]
"""


def kubectl(*arguments, given=None):
    command = [os.environ["SKILLBOX_TEST_CLUSTER_KUBECTL"], "--kubeconfig", os.environ["SKILLBOX_TEST_CLUSTER_ADMIN"]]
    ran = subprocess.run([*command, *arguments], input=given, capture_output=True, text=True, check=True)
    return ran.stdout


def names(kind):
    return {name.partition("/")[2] for name in kubectl("--namespace", NAMESPACE, "get", kind, "--output", "name").split()}


def docker(*arguments, **options):
    return subprocess.run(["docker", "--host", os.environ["SKILLBOX_TEST_CLUSTER_ENGINE"], *arguments], check=True, **options)


def make_image(place):
    """The program with what it is linked to and the variables of deploy/docker/Dockerfile, on the cluster's node."""
    program = os.environ["SKILLBOX_BIN"]
    libraries = [word for word in tool("ldd", program).split() if word.startswith("/")]
    for source, target in [(program, "/usr/local/bin/skillbox"), *((library, library) for library in libraries)]:
        path = pathlib.Path(f"{place}{target}")
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, path)
    said = (CHART.parents[1] / "docker" / "Dockerfile").read_text().splitlines()
    changes = [line for line in said if line.startswith(("ENV ", "USER 6", "ENTRYPOINT "))]
    archive = subprocess.Popen(["tar", "-C", place, "-c", "."], stdout=subprocess.PIPE)
    options = [part for change in changes for part in ("--change", change)]
    docker("import", *options, "-", IMAGE, stdin=archive.stdout, stdout=subprocess.DEVNULL)
    archive.stdout.close()
    archive.wait()


def cut_down(place):
    copied = pathlib.Path(shutil.copytree(CHART, f"{place}/skillbox"))
    for file in (copied / "templates").iterdir():
        if file.is_dir():
            shutil.rmtree(file)
        elif file.suffix != ".tpl" and file.name not in KEPT:
            file.unlink()
    about = copied / "Chart.yaml"
    about.write_text("".join(line for line in about.read_text().splitlines(True) if not line.startswith("kubeVersion")))
    return copied


class RealHelm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = cls.enterClassContext(tempfile.TemporaryDirectory())
        cls.chart = cut_down(cls.place)
        cls.addClassCleanup(docker, "image", "rm", "--force", IMAGE, stdout=subprocess.DEVNULL)
        make_image(f"{cls.place}/image")
        cls.addClassCleanup(kubectl, "delete", "namespace", NAMESPACE, "--wait=true", "--timeout=120s")
        kubectl("create", "namespace", NAMESPACE)
        kubectl("apply", "--filename", "-", given=ADMITTED)

    def helm(self, *arguments, **values):
        repository, _, tag = IMAGE.partition(":")
        values = {"image": {"repository": repository, "tag": tag}, "objectStore": {"endpoint": "https://s3.example.com"}, **values}
        path = pathlib.Path(self.place, "values.yaml")
        path.write_text(yaml.safe_dump(values))
        where = ("--kubeconfig", os.environ["SKILLBOX_TEST_CLUSTER_ADMIN"], "--namespace", NAMESPACE, "--timeout", "120s")
        return helm(*arguments, *where, *(() if arguments[0] == "uninstall" else (str(self.chart), "--values", str(path))))

    def database(self, name, address):
        kubectl("--namespace", NAMESPACE, "create", "secret", "generic", name, f"--from-literal=SKILLBOX_DB_DSN={address}")

    def test_migrations_run_first_and_leave_nothing(self):
        self.database("good", "sqlite:/tmp/tables.db")
        self.helm("install", "good", secrets={"existing": "good"})
        self.addCleanup(self.helm, "uninstall", "good")
        self.assertEqual(names("serviceaccounts") & {"good-skillbox-api", "good-skillbox-migrate"}, {"good-skillbox-api"})
        self.assertEqual(names("jobs"), set())
        self.helm("upgrade", "good", secrets={"existing": "good"})

    def test_migrations_that_fail_stop_everything_and_stay(self):
        self.database("bad", "postgres://nobody@127.0.0.1:1/nothing")
        with self.assertRaisesRegex(ToolError, "pre-install"):
            self.helm("install", "bad", secrets={"existing": "bad"}, migrate={"deadlineSeconds": 30})
        self.addCleanup(self.helm, "uninstall", "bad")
        self.addCleanup(kubectl, "--namespace", NAMESPACE, "delete", "job", "bad-skillbox-migrate")
        self.assertNotIn("bad-skillbox-api", names("serviceaccounts"))
        self.assertIn("bad-skillbox-migrate", names("jobs"))

    def test_made_secrets_are_kept(self):
        values = {"secrets": {"generate": True}, "postgres": {"enabled": True}, "minio": {"enabled": True}}
        values |= {"objectStore": {"endpoint": ""}, "migrate": {"enabled": False}}

        def secret():
            return objects(kubectl("--namespace", NAMESPACE, "get", "secret", "kept-skillbox", "--output", "yaml"))[0]["data"]

        self.helm("install", "kept", **values)
        made = secret()
        self.helm("upgrade", "kept", **values)
        self.assertEqual(secret(), made)
        # What is turned on later is added, and the rest stays.
        self.helm("upgrade", "kept", **{**values, "secrets": {"generate": True, "values": {"SKILLBOX_METRICS_TOKEN": "x" * 40}}})
        self.assertEqual({key for key, value in secret().items() if made.get(key) != value}, {"SKILLBOX_METRICS_TOKEN"})
        self.helm("uninstall", "kept")
        self.assertEqual(set(secret()), set(made))


if __name__ == "__main__":
    unittest.main()
