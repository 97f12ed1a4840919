"""Skills on their way to the server: a zip as it is, or a directory packed into one."""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path

from ._call import BytesBody
from ._forms import AnyPath

_JUNK = {".DS_Store", "Thumbs.db", "thumbs.db"}
# The earliest time a zip can name: packing the same files twice gives the same bytes.
_FIXED_TIME = (1980, 1, 1, 0, 0, 0)


def skill_body(path: AnyPath) -> BytesBody:
    """The upload of a skill: `path` is a zip, or a directory with a SKILL.md."""
    place = Path(path)
    if place.is_dir():
        data = pack(place)
    elif place.is_file():
        data = place.read_bytes()
    else:
        raise FileNotFoundError(f"skillbox: there is no skill at {os.fspath(path)!r}")
    return BytesBody(data, "application/zip")


def pack(directory: Path) -> bytes:
    """A zip of a directory. Links are refused, so that nothing from outside is picked up."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for place in sorted(directory.rglob("*")):
            name = place.relative_to(directory).as_posix()
            if place.is_symlink():
                raise ValueError(f"skillbox: {name} is a link; a skill holds files and directories only")
            if place.is_dir() or place.name in _JUNK:
                continue
            if not place.is_file():
                raise ValueError(f"skillbox: {name} is not a regular file")
            executable = place.stat().st_mode & 0o111
            entry = zipfile.ZipInfo(name, _FIXED_TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3
            entry.external_attr = (0o100755 if executable else 0o100644) << 16
            archive.writestr(entry, place.read_bytes())
    return buffer.getvalue()
