"""The two clients: the same calls, waiting or awaiting."""

from __future__ import annotations

from dataclasses import replace
from typing import Optional

from ._endpoint import Endpoint
from .admin import Admin, AsyncAdmin
from .executions import AsyncExecutions, Executions
from .files import AsyncFiles, Files
from .skills import AsyncSkills, Skills
from .trust import AsyncTrust, Trust


class _Connected:
    """How both clients are made, and what can be seen and changed of it; a change holds from the next call on."""

    def __init__(
        self,
        base_url: str,
        api_key: str = "",
        *,
        tenant_id: str = "",
        timeout: Optional[float] = None,
        retries: int = 3,
    ) -> None:
        self._endpoint = Endpoint.of(base_url, api_key, tenant_id, timeout, retries)

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
        # Never the key.
        return f"{type(self).__name__}({self.base_url!r})"


class Client(_Connected, Executions, Skills, Files, Trust, Admin):
    """A client of one Skillbox server. It keeps no connection, so threads may share it.

    Args:
        base_url: Such as ``http://localhost:8080``.
        api_key: Empty means what the environment variable ``SKILLBOX_API_KEY`` says.
        tenant_id: Only for service keys: the tenant to act for.
        timeout: Seconds that any call may stand still. By default short calls may for 60, while runs, uploads and
            downloads take as long as they take.
        retries: How often a call is sent again after a lost connection, 429 or 503, where that is harmless.
    """


class AsyncClient(_Connected, AsyncExecutions, AsyncSkills, AsyncFiles, AsyncTrust, AsyncAdmin):
    """As `Client`, for asyncio. Cancelling a task closes its connection at once; proxies are not used."""
