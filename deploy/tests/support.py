"""Shared code of the tests of chart and overlays: paths, the real tools, and objects as plain values."""

import functools
import json
import os
import pathlib
import subprocess

import yaml

TESTS = pathlib.Path(__file__).resolve().parent
DEPLOY = TESTS.parent
ROOT = DEPLOY.parent
CHART = DEPLOY / "helm" / "skillbox"
K8S = DEPLOY / "k8s"
SETS = {path.stem: path for path in sorted((TESTS / "values").glob("*.yaml"))}
OVERLAYS = ("dev", "prod")
UPDATE = os.environ.get("UPDATE") == "1"


class ToolError(Exception):
    """A tool failed; the message is its output."""


def tool(*command):
    """What a tool prints; it must succeed. scripts/test-deploy.sh says where helm and kustomize are."""
    ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode != 0:
        raise ToolError(ran.stderr.strip())
    return ran.stdout


def helm(*arguments):
    return tool(os.environ["HELM"], *arguments)


def rendered_text(values, *further):
    """The chart as text, for release and namespace `skillbox`."""
    return helm("template", "skillbox", str(CHART), "--namespace", "skillbox", "--values", str(values), *further)


def objects(text):
    # The C loader is ten times as fast, and there are many lines.
    return [value for value in yaml.load_all(text, Loader=yaml.CSafeLoader) if value]


@functools.cache
def kept_text(values):
    return rendered_text(values)


def rendered(values):
    """The chart's objects with one of the sets, rendered once and handed out as new values."""
    return objects(kept_text(values))


@functools.cache
def built_text(directory):
    return tool(os.environ["KUSTOMIZE"], "build", str(K8S / directory))


def built(directory):
    """The output of kustomize for a directory below deploy/k8s."""
    return objects(built_text(directory))


def named(value):
    """How messages and snapshots call an object."""
    metadata = value["metadata"]
    return f"{value['kind']} {metadata.get('namespace', '')}/{metadata['name']}"


def json_text(value, indent=0, width=140):
    """JSON in which everything that fits stands on one line."""
    line = json.dumps(value)
    if len(line) + indent <= width or not isinstance(value, (dict, list)):
        return line
    pad = "  " * (indent // 2 + 1)
    if isinstance(value, dict):
        parts = [f"{pad}{json.dumps(key)}: {json_text(item, indent + 2, width)}" for key, item in value.items()]
        return "{\n" + ",\n".join(parts) + "\n" + pad[2:] + "}"
    parts = [pad + json_text(item, indent + 2, width) for item in value]
    return "[\n" + ",\n".join(parts) + "\n" + pad[2:] + "]"
