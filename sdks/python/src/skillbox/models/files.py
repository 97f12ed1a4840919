"""A file of the server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Optional

from .._decode import Model


@dataclass
class FileInfo(Model):
    """A file of the server: uploaded, or left behind by a run. Its name is data, never a path to write to unchecked."""

    id: str = ""
    tenant_id: str = ""
    session_id: str = ""
    execution_id: str = ""
    name: str = ""
    content_type: str = ""
    size_bytes: int = 0
    version: int = 0
    # The first version, in every later one.
    parent_id: Optional[str] = None
    created_at: str = ""
    updated_at: str = ""
    sha256: str = ""
    # Needs no key and expires, so it is a secret meanwhile.
    url: str = field(default="", repr=False)
    # Earlier servers told where they keep it; ours do not.
    s3_key: str = ""
