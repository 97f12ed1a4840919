"""Wraps the paragraphs of standard input."""

import argparse
import re
import sys
import textwrap

parser = argparse.ArgumentParser(prog="wrap.py", description=__doc__)
parser.add_argument("--width", type=int, default=72)
parser.add_argument("--indent", default="")
options = parser.parse_args()

paragraphs = re.split(r"\n\s*\n", sys.stdin.read().strip())
print("\n\n".join(
    textwrap.fill(paragraph, options.width, initial_indent=options.indent, subsequent_indent=options.indent)
    for paragraph in paragraphs
))
