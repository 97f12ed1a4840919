"""Server address, API key and tenant of a client, validated when the client is created or changed."""

from __future__ import annotations

import os
import platform
import uuid
from dataclasses import dataclass
from typing import Any, Optional
from urllib.parse import SplitResult, urlsplit

from ._call import Call
from ._version import VERSION

CONNECT_TIMEOUT_S = 10.0
# For short calls, which only read or write a row.
CALL_TIMEOUT_S = 60.0
CHUNK_BYTES = 64 * 1024
USER_AGENT = f"skillbox-python/{VERSION} (Python {platform.python_version()})"


@dataclass(frozen=True)
class Endpoint:
    base_url: str
    api_key: str
    tenant_id: str
    timeout: Optional[float]
    retries: int

    @classmethod
    def create(cls, base_url: str, api_key: str, tenant_id: str, timeout: Optional[float], retries: int) -> Endpoint:
        return cls(base_url, api_key or os.environ.get("SKILLBOX_API_KEY", ""), tenant_id, timeout, retries)

    def __post_init__(self) -> None:
        object.__setattr__(self, "base_url", _base_url(self.base_url))
        _require_sendable("api_key", self.api_key)
        _require_sendable("tenant_id", self.tenant_id)

    def url(self, call: Call[Any]) -> SplitResult:
        """Returns the URL of a call. An absolute URL is used unchanged; anything else is relative to the server."""
        target = call.target
        return urlsplit(target if "://" in target else self.base_url + target)

    def headers(self, call: Call[Any], request_id: str) -> dict[str, str]:
        headers = {"User-Agent": USER_AGENT, "Accept": "*/*", "X-Request-ID": request_id, "Connection": "close"}
        if call.body is not None:
            headers["Content-Type"] = call.body.content_type
            headers["Content-Length"] = str(call.body.length)
        elif call.method in ("POST", "PUT"):
            headers["Content-Length"] = "0"
        if not call.anonymous:
            if self.api_key:
                headers["Authorization"] = f"Bearer {self.api_key}"
            if self.tenant_id:
                headers["X-Tenant-ID"] = self.tenant_id
        headers.update(call.headers)
        return headers

    def idle_timeout(self, call: Call[Any]) -> Optional[float]:
        """Returns how many seconds a call may go without progress."""
        if self.timeout is None and call.silence_s is None:
            return None if call.long_running else CALL_TIMEOUT_S
        return _shortest(self.timeout, call.silence_s)

    def connect_timeout(self, call: Call[Any]) -> float:
        return _shortest(CONNECT_TIMEOUT_S, self.timeout, call.silence_s)


def new_id() -> str:
    """Creates a random id, used as request id or idempotency key."""
    return str(uuid.uuid4())


def _shortest(*limits: Optional[float]) -> float:
    return min(limit for limit in limits if limit is not None)


def _base_url(text: str) -> str:
    """Normalizes the server address. A missing scheme means http, so that `localhost:8080` works."""
    url = text.strip() if "://" in text else f"http://{text.strip()}"
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{text!r} is not a server address; use one like http://localhost:8080")
    return f"{parts.scheme}://{parts.netloc}{parts.path}".rstrip("/")


def _require_sendable(name: str, value: str) -> None:
    if not (value.isascii() and value.isprintable()):
        raise ValueError(f"{name} contains characters that cannot be sent in a header")
