"""Prepares skills for upload: a zip is sent unchanged, a directory is packed into one."""

from __future__ import annotations

import errno
import io
import os
import stat
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ._call import BytesBody
from ._forms import AnyPath

_JUNK = {".DS_Store", "Thumbs.db", "thumbs.db"}
# The earliest time that zip can represent. A fixed time makes archives of the same files identical.
_FIXED_TIME = (1980, 1, 1, 0, 0, 0)


def skill_body(path: AnyPath) -> BytesBody:
    """Returns the request body for a skill: `path` is a zip, or a directory with a SKILL.md."""
    source = Path(path)
    if source.is_dir():
        data = pack(source)
    elif source.is_file():
        data = source.read_bytes()
    else:
        raise FileNotFoundError(f"skillbox: there is no skill at {os.fspath(path)!r}")
    return BytesBody(data, "application/zip")


def pack(directory: Path) -> bytes:
    """Packs a directory into a zip. Links are rejected, so files outside the directory are never included."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, file in sorted(_files(directory), key=lambda found: found[0].split("/")):
            entry = zipfile.ZipInfo(name, _FIXED_TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3
            entry.external_attr = (0o100755 if file.executable else 0o100644) << 16
            archive.writestr(entry, file.data)
    return buffer.getvalue()


class _File(NamedTuple):
    data: bytes
    executable: bool


def _files(directory: Path) -> Iterator[tuple[str, _File]]:
    """Yields every file with its name in the zip.

    Where the platform supports it, each file is opened relative to its open directory and without following links.
    Checking a path first and opening it later would let another process replace the file with a link in between.
    """
    if not hasattr(os, "fwalk"):
        yield from _files_by_path(directory)
        return
    for parent, directories, names, descriptor in os.fwalk(directory):
        for name in directories:
            if stat.S_ISLNK(os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode):
                raise _link(_name(directory, parent, name))
        for name in names:
            if name not in _JUNK:
                yield _name(directory, parent, name), _read(descriptor, name, _name(directory, parent, name))


def _read(descriptor: int, name: str, shown: str) -> _File:
    try:
        # O_NONBLOCK: opening a named pipe must not block until a writer appears.
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=descriptor)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK):
            raise _link(shown) from None
        raise
    with open(file, "rb") as opened:
        mode = os.fstat(opened.fileno()).st_mode
        if not stat.S_ISREG(mode):
            raise ValueError(f"skillbox: {shown} is not a regular file")
        return _File(opened.read(), bool(mode & 0o111))


def _files_by_path(directory: Path) -> Iterator[tuple[str, _File]]:
    for file in directory.rglob("*"):
        name = file.relative_to(directory).as_posix()
        if file.is_symlink():
            raise _link(name)
        if file.is_dir() or file.name in _JUNK:
            continue
        if not file.is_file():
            raise ValueError(f"skillbox: {name} is not a regular file")
        yield name, _File(file.read_bytes(), bool(file.stat().st_mode & 0o111))


def _name(directory: Path, parent: str, name: str) -> str:
    return Path(parent, name).relative_to(directory).as_posix()


def _link(name: str) -> ValueError:
    return ValueError(f"skillbox: {name} is a link; a skill holds files and directories only")
