"""Writes downloads to disk. File names are untrusted: nothing is written outside of the given directory.

A file appears under its name only once it is complete.
"""

from __future__ import annotations

import gzip
import os
import shutil
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from ._endpoint import new_id
from ._forms import AnyPath
from .errors import ArchiveError, UnsafePathError

CHUNK_BYTES = 1 << 20
_FORBIDDEN = {chr(code) for code in range(32)} | {"\x7f"} | (set("\\:") if os.name == "nt" else set())


@contextmanager
def atomic_file(path: AnyPath) -> Iterator[IO[bytes]]:
    """Opens a temporary file that is renamed to `path` if the block succeeds and removed if it fails."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{new_id()}.part")
    try:
        with part.open("xb") as file:
            yield file
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def unpack(archive: IO[bytes], directory: AnyPath) -> list[Path]:
    """Unpacks a gzip tar and returns the written paths. A truncated or unsafe archive is not unpacked at all."""
    root = Path(directory)
    root.mkdir(parents=True, exist_ok=True)
    root = root.resolve()
    # The first pass only checks the archive, so that nothing is written if any entry is invalid.
    for _ in _files(archive, root):
        pass
    written = []
    for target, content in _files(archive, root):
        with atomic_file(target) as file:
            shutil.copyfileobj(content, file, CHUNK_BYTES)
        written.append(target)
    return written


def _files(archive: IO[bytes], root: Path) -> Iterator[tuple[Path, IO[bytes]]]:
    """Yields the target path and the content of each file. The content is readable until the next iteration."""
    archive.seek(0)
    try:
        with gzip.GzipFile(fileobj=archive) as plain, tarfile.open(fileobj=plain, mode="r|") as entries:
            for entry in entries:
                if entry.isdir():
                    continue
                target = safe_target(root, entry.name)
                content = entries.extractfile(entry) if entry.isreg() else None
                if content is None:
                    raise UnsafePathError(f"skillbox: {entry.name!r} in the archive is not a regular file")
                yield target, content
            # Read to the end, so that the checksum is verified.
            while plain.read(CHUNK_BYTES):
                pass
    except (tarfile.TarError, EOFError, gzip.BadGzipFile, zlib.error) as cause:
        raise ArchiveError(f"skillbox: the archive cannot be read: {cause}") from cause


def safe_target(root: Path, name: str) -> Path:
    """Returns the path for a file with this name below `root`, which must be resolved."""
    parts = name.split("/")
    if any(part in ("", ".", "..") or _FORBIDDEN.intersection(part) for part in parts):
        raise UnsafePathError(f"skillbox: {name!r} in the archive is not a safe relative path")
    target = root.joinpath(*parts)
    # An existing link in the directory must not redirect the file to another place.
    if not target.parent.resolve().is_relative_to(root):
        raise UnsafePathError(f"skillbox: {name!r} would be written outside of {root}")
    return target
