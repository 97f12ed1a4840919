"""For operators: keys, tenants, the audit trail, the secret of webhooks, and whether the server is well."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, Optional, Union

from ._aio_http import AsyncSender
from ._call import Answer, Call, document, get, json_body, nothing, page, path_of, query_of
from ._http import Sender
from ._paging import walk, walk_async
from .models import AuditEntry, Key, Policy, Readiness, SignedAuditHead, Tenant, TenantUsage

PolicyLike = Union[Policy, Mapping[str, Any]]


class Admin(Sender):
    """The part of `Client` for operators."""

    def health(self) -> None:
        """Raises when there is no server."""
        self._send(get(nothing, "health"))

    def ready(self) -> Readiness:
        """Whether the server can run skills. One that is not ready is an answer too, not an exception."""
        return self._send(_ready())

    def create_key(
        self,
        name: str,
        *,
        scopes: Optional[Sequence[str]] = None,
        skills: Optional[Sequence[str]] = None,
        expires_at: str = "",
        service: bool = False,
        key: str = "",
    ) -> Key:
        """Makes a key; its secret is in `key`, now and never again. Scopes default to ``execute`` and ``read``."""
        return self._send(_create_key(name, scopes, skills, expires_at, service, key))

    def list_keys(self) -> list[Key]:
        """The keys of the tenant, without their secrets."""
        return list(walk(self, lambda cursor: get(page(Key), "v1", "keys", query=_page(cursor))))

    def revoke_key(self, key_id: str) -> None:
        """Ends a key."""
        self._send(Call("DELETE", path_of("v1", "keys", key_id), nothing))

    def create_tenant(self, tenant_id: str, *, policy: Optional[PolicyLike] = None) -> Tenant:
        """Makes a tenant; needs a service key, as the other calls on tenants do."""
        return self._send(_create_tenant(tenant_id, policy))

    def list_tenants(self) -> list[Tenant]:
        """All tenants."""
        return list(walk(self, lambda cursor: get(page(Tenant), "v1", "tenants", query=_page(cursor))))

    def get_tenant(self, tenant_id: str) -> Tenant:
        """One tenant."""
        return self._send(get(document(Tenant), "v1", "tenants", tenant_id))

    def update_tenant(self, tenant_id: str, policy: PolicyLike) -> Tenant:
        """Replaces a tenant's policy as a whole."""
        return self._send(_update_tenant(tenant_id, policy))

    def delete_tenant(self, tenant_id: str) -> None:
        """Removes a tenant that has nothing left."""
        self._send(Call("DELETE", path_of("v1", "tenants", tenant_id), nothing))

    def get_usage(self) -> TenantUsage:
        """What the tenant stores, and may store."""
        return self._send(get(document(TenantUsage), "v1", "usage"))

    def get_webhook_secret(self) -> str:
        """What `skillbox.webhooks.verify` checks the tenant's webhooks with."""
        return self._send(get(_secret, "v1", "webhooks", "secret"))

    def get_audit_head(self) -> SignedAuditHead:
        """The signed head of the audit log, which ``skillbox audit-log verify`` checks a log against."""
        return self._send(get(document(SignedAuditHead), "v1", "audit", "head"))

    def iter_audit(self, *, page_size: int = 50) -> Iterator[AuditEntry]:
        """Who changed what, newest first, fetched page by page as you go."""
        return walk(self, lambda cursor: get(page(AuditEntry), "v1", "audit", query=_page(cursor, page_size)))


class AsyncAdmin(AsyncSender):
    """The part of `AsyncClient` for operators."""

    async def health(self) -> None:
        """As `Client.health`."""
        await self._send(get(nothing, "health"))

    async def ready(self) -> Readiness:
        """As `Client.ready`."""
        return await self._send(_ready())

    async def create_key(
        self,
        name: str,
        *,
        scopes: Optional[Sequence[str]] = None,
        skills: Optional[Sequence[str]] = None,
        expires_at: str = "",
        service: bool = False,
        key: str = "",
    ) -> Key:
        """As `Client.create_key`."""
        return await self._send(_create_key(name, scopes, skills, expires_at, service, key))

    async def list_keys(self) -> list[Key]:
        """As `Client.list_keys`."""
        return [key async for key in walk_async(self, lambda at: get(page(Key), "v1", "keys", query=_page(at)))]

    async def revoke_key(self, key_id: str) -> None:
        """As `Client.revoke_key`."""
        await self._send(Call("DELETE", path_of("v1", "keys", key_id), nothing))

    async def create_tenant(self, tenant_id: str, *, policy: Optional[PolicyLike] = None) -> Tenant:
        """As `Client.create_tenant`."""
        return await self._send(_create_tenant(tenant_id, policy))

    async def list_tenants(self) -> list[Tenant]:
        """As `Client.list_tenants`."""
        return [row async for row in walk_async(self, lambda at: get(page(Tenant), "v1", "tenants", query=_page(at)))]

    async def get_tenant(self, tenant_id: str) -> Tenant:
        """As `Client.get_tenant`."""
        return await self._send(get(document(Tenant), "v1", "tenants", tenant_id))

    async def update_tenant(self, tenant_id: str, policy: PolicyLike) -> Tenant:
        """As `Client.update_tenant`."""
        return await self._send(_update_tenant(tenant_id, policy))

    async def delete_tenant(self, tenant_id: str) -> None:
        """As `Client.delete_tenant`."""
        await self._send(Call("DELETE", path_of("v1", "tenants", tenant_id), nothing))

    async def get_usage(self) -> TenantUsage:
        """As `Client.get_usage`."""
        return await self._send(get(document(TenantUsage), "v1", "usage"))

    async def get_webhook_secret(self) -> str:
        """As `Client.get_webhook_secret`."""
        return await self._send(get(_secret, "v1", "webhooks", "secret"))

    async def get_audit_head(self) -> SignedAuditHead:
        """As `Client.get_audit_head`."""
        return await self._send(get(document(SignedAuditHead), "v1", "audit", "head"))

    def iter_audit(self, *, page_size: int = 50) -> AsyncIterator[AuditEntry]:
        """As `Client.iter_audit`, for ``async for``."""
        return walk_async(self, lambda cursor: get(page(AuditEntry), "v1", "audit", query=_page(cursor, page_size)))


def _page(cursor: str, limit: int = 200) -> list[tuple[str, str]]:
    return query_of(limit=limit, cursor=cursor)


def _ready() -> Call[Readiness]:
    return Call("GET", path_of("ready"), document(Readiness), repeatable=True, answers=(503,))


def _create_key(
    name: str,
    scopes: Optional[Sequence[str]],
    skills: Optional[Sequence[str]],
    expires_at: str,
    service: bool,
    key: str,
) -> Call[Key]:
    body: dict[str, Any] = {"name": name}
    if scopes is not None:
        body["scopes"] = list(scopes)
    if skills is not None:
        body["skills"] = list(skills)
    if expires_at:
        body["expires_at"] = expires_at
    if service:
        body["service"] = True
    if key:
        body["key"] = key
    return Call("POST", path_of("v1", "keys"), document(Key), body=json_body(body))


def _create_tenant(tenant_id: str, policy: Optional[PolicyLike]) -> Call[Tenant]:
    body: dict[str, Any] = {"id": tenant_id}
    if policy is not None:
        body["policy"] = _policy(policy)
    return Call("POST", path_of("v1", "tenants"), document(Tenant), body=json_body(body))


def _update_tenant(tenant_id: str, policy: PolicyLike) -> Call[Tenant]:
    body = json_body({"policy": _policy(policy)})
    return Call("PUT", path_of("v1", "tenants", tenant_id), document(Tenant), body=body, repeatable=True)


def _policy(policy: PolicyLike) -> dict[str, Any]:
    given = policy if isinstance(policy, Mapping) else {**getattr(policy, "raw", {}), **vars(policy)}
    return {name: value for name, value in given.items() if value is not None and name != "raw"}


def _secret(answer: Answer) -> str:
    return str(json.loads(answer.body)["secret"])
