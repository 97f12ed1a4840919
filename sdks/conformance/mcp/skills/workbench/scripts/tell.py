"""Prints its arguments and its standard input, complains on standard error, and exits with the code in CODE."""

import os
import sys

print("|".join(sys.argv[1:]))
sys.stdout.write(sys.stdin.read())
print("that was all, høy", file=sys.stderr)
sys.exit(int(os.environ.get("CODE", "0")))
