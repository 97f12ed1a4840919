"""Writes a file of SIZE bytes, one with a name in three scripts, and one in a directory."""

import os
from pathlib import Path

root = Path(os.environ["SANDBOX_FILES_DIR"])
block = bytes(range(256)) * 4096
size = int(os.environ.get("SIZE", "0"))
with (root / "large.bin").open("wb") as file:
    while size > 0:
        file.write(block[:size])
        size -= len(block)
(root / "Grüße 世界 🦀.txt").write_text("Grüße, 世界, 🦀\n", encoding="utf-8")
(root / "deep" / "er").mkdir(parents=True)
(root / "deep" / "er" / "a%20b?.txt").write_text("deep\n", encoding="utf-8")
