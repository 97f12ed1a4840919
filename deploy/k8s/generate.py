#!/usr/bin/env python3
"""Writes deploy/k8s/base and deploy/k8s/components from the Helm chart, one file for each of its templates.

    HELM=/path/to/helm deploy/k8s/generate.py [directory]

Only what is Helm's own is taken out: its labels and the annotations of hooks. The text is otherwise the chart's, comments included."""

import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
CHART = HERE.parent / "helm" / "skillbox"
HELMS_OWN = re.compile(r"^ *(helm\.sh/\S+: .*|app\.kubernetes\.io/managed-by: Helm)\n", re.MULTILINE)
HOOK_COMMENT = re.compile(r"^ *# .*\n(?= *helm\.sh/)", re.MULTILINE)
EMPTY_ANNOTATIONS = re.compile(r"^( *)annotations:\n(?!\1 )", re.MULTILINE)
BUNDLED = ("bundled-postgres", "bundled-minio")
HEAD = "# Made by deploy/k8s/generate.py from deploy/helm/skillbox/templates/{}.yaml. Change that, and run it again.\n"


def render(*arguments):
    command = [os.environ.get("HELM", "helm"), "template", "skillbox", str(CHART), "--namespace", "skillbox"]
    values = ["--values", str(HERE / "base-values.yaml")]
    return subprocess.run([*command, *values, *arguments], check=True, capture_output=True, text=True).stdout


def by_template(text):
    """The documents of each template, in the order of the text."""
    files = {}
    for document in re.split(r"^---\n", text, flags=re.MULTILINE):
        if source := re.match(r"# Source: skillbox/templates/(\S+)\.yaml\n", document):
            files.setdefault(source[1], []).append(document[source.end() :].lstrip("\n"))
    return files


def without_helm(document):
    document = HELMS_OWN.sub("", HOOK_COMMENT.sub("", document))
    return EMPTY_ANNOTATIONS.sub("", document)


def files():
    """Every file that is made, by its path below deploy/k8s."""
    base = {f"base/{name}.yaml": (name, documents) for name, documents in by_template(render()).items()}
    trial = by_template(render("--set", "postgres.enabled=true,minio.enabled=true,objectStore.endpoint="))
    bundled = {f"components/bundled/{name.removeprefix('bundled-')}.yaml": (name, trial[name]) for name in BUNDLED}
    made = {}
    for path, (name, documents) in {**base, **bundled}.items():
        made[path] = HEAD.format(name) + "---\n".join(without_helm(document) for document in documents)
    return made


def write(target):
    for path, text in files().items():
        file = target / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


if __name__ == "__main__":
    write(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
