"""Files stored on the server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Optional

from .._decode import Model


@dataclass
class FileInfo(Model):
    """A file on the server: an upload, or output of a run. The name is untrusted; never use it as a path unchecked."""

    id: str = ""
    tenant_id: str = ""
    session_id: str = ""
    execution_id: str = ""
    name: str = ""
    content_type: str = ""
    size_bytes: int = 0
    version: int = 0
    # The id of the first version; None for the first version itself.
    parent_id: Optional[str] = None
    created_at: str = ""
    updated_at: str = ""
    sha256: str = ""
    # A presigned URL: it works without a key until it expires, so treat it as a secret.
    url: str = field(default="", repr=False)
    # Always empty; earlier servers returned the storage key here.
    s3_key: str = ""
