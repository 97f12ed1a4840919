#!/usr/bin/env python3
"""Wraps the prose of all committed Markdown files at 100 columns.

Only paragraphs, list items and quotations are wrapped. Tables, code, headings, HTML, front matter and
link definitions stay as they are, and so do the files that a generator or a test owns (see EXCLUDED).
Without arguments the files are rewritten; `--check` lists the files that would change and fails.
"""

import re
import subprocess
import sys
from pathlib import Path

WIDTH = 100
ROOT = Path(__file__).resolve().parent.parent
# Generated pages, skills (their digest depends on every byte) and fixtures of tests.
EXCLUDED = re.compile(r"^docs/configuration\.md$|SKILL\.md$|/skills/|/fixtures/scripts/|^crates/skill/")

FENCE = re.compile(r"^\s*(```+|~~~+)")
ITEM = re.compile(r"^(\s*)([-*+]|\d+[.)])(\s+)(?=\S)")
# Lines that stand alone: headings, rules, tables, HTML, link definitions, images.
VERBATIM = re.compile(r"^\s*(#{1,6}\s|\||<|\[[^\]]+\]:\s|!\[|={3,}$|-{3,}$|\*{3,}$)")
# A wrapped line must not start with text that Markdown reads as the start of a block.
BLOCK_START = re.compile(r"^([-*+]|\d+[.)]|#{1,6}|>.*|\|.*|<.*|=+|-+|```.*|~~~.*|\[[^\]]+\]:.*|!\[.*)$")


def words_of(text):
    """Splits at spaces, but keeps inline code and link targets in one word."""
    return re.findall(r"(?:`+[^`]*`+|\]\([^)]*\)|\S)+", text)


def fill(text, first, rest):
    lines, line, prefix = [], "", first
    for word in words_of(text):
        if not line:
            line = prefix + word
        elif len(line) + 1 + len(word) <= WIDTH or BLOCK_START.match(word):
            line += " " + word
        else:
            lines.append(line)
            prefix, line = rest, rest + word
    return lines + [line] if line else lines


class Wrapper:
    def __init__(self):
        self.out, self.paragraph, self.first, self.rest = [], [], "", ""

    def flush(self):
        if self.paragraph:
            self.out += fill(" ".join(self.paragraph), self.first, self.rest)
        self.paragraph = []

    def start(self, first, rest, text):
        self.flush()
        self.first, self.rest, self.paragraph = first, rest, [text]

    def read(self, line):
        item = ITEM.match(line)
        quote = re.match(r"^(\s*>\s?)(.*)$", line)
        if not line.strip():
            self.flush()
            self.out.append("")
        elif item:
            self.start(item.group(0), " " * len(item.group(0)), line[item.end() :].strip())
        elif quote:
            if self.paragraph and self.first == quote.group(1) and quote.group(2).strip():
                self.paragraph.append(quote.group(2).strip())
            else:
                self.start(quote.group(1), quote.group(1), quote.group(2).strip())
        elif VERBATIM.match(line):
            self.flush()
            self.out.append(line.rstrip())
        elif self.paragraph:
            self.paragraph.append(line.strip())
        else:
            indent = line[: len(line) - len(line.lstrip())]
            self.start(indent, indent, line.strip())
        # Two spaces or a backslash at the end of a line are a line break.
        if self.paragraph and (line.endswith("  ") or line.endswith("\\")):
            broken = "  " if line.endswith("  ") else ""
            rest = self.rest
            self.flush()
            self.out[-1] += broken
            self.first = self.rest = rest


def wrap(text):
    wrapper, fence, front = Wrapper(), None, text.startswith("---\n")
    for number, line in enumerate(text.splitlines()):
        mark = FENCE.match(line)
        if front:
            wrapper.out.append(line)
            front = number == 0 or line != "---"
        elif fence:
            wrapper.out.append(line)
            if mark and line.strip().startswith(fence) and not line.strip().strip(fence[0]):
                fence = None
        elif mark:
            wrapper.flush()
            wrapper.out.append(line)
            fence = mark.group(1)
        else:
            wrapper.read(line)
    wrapper.flush()
    return "\n".join(wrapper.out) + "\n"


def files():
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout
    return [ROOT / name for name in sorted(set(listed.split("\0"))) if name and not EXCLUDED.search(name)]


def main():
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.exit(__doc__)
    changed = 0
    for path in files():
        if not path.exists():
            continue
        before = path.read_text(encoding="utf-8")
        after = wrap(before)
        assert wrap(after) == after, f"{path}: wrapping is not idempotent"
        if after == before:
            continue
        changed += 1
        print(path.relative_to(ROOT))
        if not check:
            path.write_text(after, encoding="utf-8")
    if check and changed:
        sys.exit("wrap-markdown: these files are not wrapped at 100 columns; run scripts/wrap-markdown.py")


if __name__ == "__main__":
    main()
