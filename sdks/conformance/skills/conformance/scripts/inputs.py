"""Prints name and size of each input file."""

import os
from pathlib import Path

for path in sorted(Path(os.environ["SANDBOX_INPUT_DIR"]).iterdir()):
    print(path.name, path.stat().st_size)
