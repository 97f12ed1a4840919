#!/usr/bin/env python3
"""Fails if the target file or heading of a relative link in a Markdown file does not exist."""

import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)", re.DOTALL)
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.DOTALL | re.MULTILINE)


def headings(path):
    """Returns the anchors that code hosting sites generate for the headings of a file."""
    text = CODE.sub(lambda code: "" if code[0].startswith("```") else code[0].strip("`"), path.read_text())
    anchors = set()
    for heading in re.findall(r"^#+ +(.+)$", text, re.MULTILINE):
        anchors.add(re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-"))
    return anchors


def broken_links(path):
    for target in LINK.findall(CODE.sub("", path.read_text())):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (path.parent / unquote(name)).resolve() if name else path
        if not file.exists():
            yield f"{target}: no such file"
        elif anchor and file.suffix == ".md" and anchor not in headings(file):
            yield f"{target}: no such heading"


def main():
    listed = subprocess.run(["git", "ls-files", "-z", "*.md"], cwd=ROOT, check=True, capture_output=True, text=True)
    files = [ROOT / name for name in listed.stdout.split("\0") if name]
    # Fixtures contain skills with arbitrary content.
    files = [path for path in files if path.exists() and "fixtures" not in path.parts and "skills" not in path.parts]
    found = [f"{path.relative_to(ROOT)}: {problem}" for path in files for problem in broken_links(path)]
    print("\n".join(found), file=sys.stderr) if found else None
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
