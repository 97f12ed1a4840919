"""Leaves a file of text with a name in three scripts, and one of all bytes in a directory."""

import os
from pathlib import Path

root = Path(os.environ["SANDBOX_FILES_DIR"])
(root / "Grüße 世界 🦀.txt").write_text("Grüße, 世界, 🦀\n", encoding="utf-8")
(root / "deep").mkdir()
(root / "deep" / "a%20b.bin").write_bytes(bytes(range(256)))
