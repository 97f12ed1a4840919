#!/usr/bin/env python3
"""Records the README image: runs the commands below with the real program and writes docs/images/demo.svg.

    scripts/record-demo.py            runs target/debug/skillbox (or $SKILLBOX_BIN) and writes the image
    scripts/record-demo.py --check    fails if the commands or results in the image differ from those of the program

Times and sizes differ from run to run and are not compared.
"""

import html
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "images" / "demo.svg"
COMMANDS = [
    """skillbox run examples/skills/word-counter --input '{"text": "one two two"}' | jq -c '{words, unique}'""",
    "skillbox run examples/skills/malicious -o json > report.json",
    "jq -c '.output | {tried, stolen}' report.json",
    "jq -r '.network_attempts[:3][] | .call + \" \" + .to' report.json",
    "jq -r '.isolation.controls | .seccomp, .network_namespace, .read_only_root' report.json",
]
COLUMNS, LINE_HEIGHT, CHARACTER_WIDTH, MARGIN = 100, 19, 8.4, 18
STYLE = (
    "text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;white-space:pre;fill:#d7dae0}"
    ".prompt{fill:#7fd88f}.command{fill:#ffffff}.note{fill:#8b93a1}"
)


def run(command, directory):
    """Returns the terminal output of a command: both streams, interleaved."""
    environment = {**os.environ, "PATH": f"{directory}:{os.environ['PATH']}"}
    ran = subprocess.run(
        ["bash", "-c", command.replace("report.json", f"{directory}/report.json")],
        cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True,
    )  # fmt: skip
    return ran.stdout.splitlines()


def record(directory):
    """(class, text) for each line."""
    lines = []
    for command in COMMANDS:
        lines.append(("command", command))
        for text in run(command, directory):
            lines.append(("note" if re.match(r"(exited|tried|\d+ words)", text) else "", text[:COLUMNS]))
    return lines


def picture(lines):
    width, height = COLUMNS * CHARACTER_WIDTH + 2 * MARGIN, len(lines) * LINE_HEIGHT + 2 * MARGIN + 22
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" role="img" '
        'aria-label="A skill runs; a malicious skill finds nothing to steal">',
        f'<style>{STYLE}</style><rect width="100%" height="100%" rx="8" fill="#1b1f27"/>',
    ]
    parts += [f'<circle cx="{MARGIN + 18 * at}" cy="18" r="5.5" fill="{fill}"/>' for at, fill in enumerate(("#ff5f57", "#febc2e", "#28c840"))]
    for number, (kind, text) in enumerate(lines):
        y = MARGIN + 36 + number * LINE_HEIGHT
        prompt = '<tspan class="prompt">$ </tspan>' if kind == "command" else ""
        parts.append(f'<text xml:space="preserve" x="{MARGIN}" y="{y}" class="{kind}">{prompt}{html.escape(text, quote=False)}</text>')
    return "\n".join(parts) + "\n</svg>\n"


def comparable(text):
    """Removes text that differs between runs."""
    return re.sub(r"\d+(\.\d+)? (ms|s|KiB|MiB)\b", "N", text)


def main(arguments):
    import tempfile

    binary = Path(os.environ.get("SKILLBOX_BIN", ROOT / "target/debug/skillbox")).resolve()
    with tempfile.TemporaryDirectory() as directory:
        Path(directory, "skillbox").symlink_to(binary)
        recorded = picture(record(directory))
    if arguments != ["--check"]:
        PICTURE.parent.mkdir(exist_ok=True)
        PICTURE.write_text(recorded)
    elif comparable(PICTURE.read_text()) != comparable(recorded):
        sys.exit("docs/images/demo.svg shows something else than the program prints: run scripts/record-demo.py")


if __name__ == "__main__":
    main(sys.argv[1:])
