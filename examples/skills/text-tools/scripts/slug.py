"""Turns each line of standard input into a URL-safe slug."""

import argparse
import re
import sys
import unicodedata

parser = argparse.ArgumentParser(prog="slug.py", description=__doc__)
parser.add_argument("--max", type=int, default=60)
options = parser.parse_args()

for line in sys.stdin:
    # Decomposed letters lose their accents instead of vanishing.
    plain = unicodedata.normalize("NFKD", line).encode("ascii", "ignore").decode()
    print(re.sub(r"[^a-z0-9]+", "-", plain.lower())[: options.max].strip("-"))
