"""The synchronous and the asynchronous client, with the same calls."""

from __future__ import annotations

from dataclasses import replace
from typing import Optional

from ._endpoint import Endpoint
from .admin import Admin, AsyncAdmin
from .executions import AsyncExecutions, Executions
from .files import AsyncFiles, Files
from .skills import AsyncSkills, Skills
from .trust import AsyncTrust, Trust


class _BaseClient:
    """Constructor and settings of both clients. A changed setting applies from the next call on."""

    def __init__(
        self,
        base_url: str,
        api_key: str = "",
        *,
        tenant_id: str = "",
        timeout: Optional[float] = None,
        retries: int = 3,
    ) -> None:
        self._endpoint = Endpoint.create(base_url, api_key, tenant_id, timeout, retries)

    @property
    def base_url(self) -> str:
        return self._endpoint.base_url

    @base_url.setter
    def base_url(self, value: str) -> None:
        self._endpoint = replace(self._endpoint, base_url=value)

    @property
    def api_key(self) -> str:
        return self._endpoint.api_key

    @api_key.setter
    def api_key(self, value: str) -> None:
        self._endpoint = replace(self._endpoint, api_key=value)

    @property
    def tenant_id(self) -> str:
        return self._endpoint.tenant_id

    @tenant_id.setter
    def tenant_id(self, value: str) -> None:
        self._endpoint = replace(self._endpoint, tenant_id=value)

    @property
    def timeout(self) -> Optional[float]:
        return self._endpoint.timeout

    @timeout.setter
    def timeout(self, value: Optional[float]) -> None:
        self._endpoint = replace(self._endpoint, timeout=value)

    @property
    def retries(self) -> int:
        return self._endpoint.retries

    @retries.setter
    def retries(self, value: int) -> None:
        self._endpoint = replace(self._endpoint, retries=value)

    def __repr__(self) -> str:
        # The representation must not reveal the key.
        return f"{type(self).__name__}({self.base_url!r})"


class Client(_BaseClient, Executions, Skills, Files, Trust, Admin):
    """A client of one Skillbox server. It keeps no connections, so threads can share it.

    Args:
        base_url: The server's address, such as ``http://localhost:8080``.
        api_key: If empty, the environment variable ``SKILLBOX_API_KEY`` is used.
        tenant_id: The tenant to act for; only for service keys.
        timeout: Maximum seconds without progress, for every call. The default is 60 for short calls and no timeout
            for runs, uploads and downloads.
        retries: Maximum number of retries after a lost connection, 429 or 503, where a retry is safe.
    """


class AsyncClient(_BaseClient, AsyncExecutions, AsyncSkills, AsyncFiles, AsyncTrust, AsyncAdmin):
    """Like `Client`, for asyncio. Cancelling a task closes its connection immediately; proxies are not used."""
