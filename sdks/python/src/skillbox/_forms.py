"""File uploads as multipart forms, streamed from disk."""

from __future__ import annotations

import mimetypes
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Union

from ._endpoint import CHUNK_BYTES, new_id

AnyPath = Union[str, "os.PathLike[str]"]


@dataclass(frozen=True)
class FormBody:
    """`multipart/form-data` with one part `file`, preceded by optional fields."""

    path: Path
    head: bytes
    tail: bytes
    boundary: str
    size: int

    @classmethod
    def from_path(cls, path: AnyPath, **fields: str) -> FormBody:
        file = Path(path)
        if not file.is_file():
            raise FileNotFoundError(f"skillbox: there is no file {os.fspath(path)!r}")
        boundary = new_id()
        lines = [_field(boundary, name, value) for name, value in fields.items() if value]
        kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
        lines.append(
            f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{_quoted(file.name)}"\r\n'
            f"Content-Type: {kind}\r\n\r\n"
        )
        tail = f"\r\n--{boundary}--\r\n".encode()
        return cls(file, "".join(lines).encode("utf-8"), tail, boundary, file.stat().st_size)

    @property
    def content_type(self) -> str:
        return f"multipart/form-data; boundary={self.boundary}"

    @property
    def length(self) -> int:
        return len(self.head) + self.size + len(self.tail)

    def chunks(self) -> Iterator[bytes]:
        yield self.head
        left = self.size
        with self.path.open("rb") as file:
            # If the file grows during the upload, only the announced length is sent.
            while left and (data := file.read(min(CHUNK_BYTES, left))):
                left -= len(data)
                yield data
        if left:
            raise OSError(f"{self.path} became shorter while it was sent")
        yield self.tail


def _field(boundary: str, name: str, value: str) -> str:
    return f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'


def _quoted(name: str) -> str:
    """Escapes a file name as browsers do in forms."""
    return name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
