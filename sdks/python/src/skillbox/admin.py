"""Calls for operators: keys, tenants, the audit log, the webhook secret, health and readiness."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, Optional, Union

from ._aio_http import AsyncSender
from ._call import Answer, Call, document, get, json_body, nothing, page, path_of, query_of
from ._http import Sender
from ._paging import iterate_pages, iterate_pages_async
from .models import AuditEntry, Key, Policy, Readiness, SignedAuditHead, Tenant, TenantUsage

PolicyLike = Union[Policy, Mapping[str, Any]]


class Admin(Sender):
    """Methods of `Client` for operators."""

    def health(self) -> None:
        """Checks that the server responds; raises if it does not."""
        self._send(get(nothing, "health"))

    def ready(self) -> Readiness:
        """Returns whether the server can run skills. A server that is not ready does not raise an exception."""
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
        """Creates a key. The secret is returned only in this response, in `key`.

        Scopes default to ``execute`` and ``read``.
        """
        return self._send(_create_key(name, scopes, skills, expires_at, service, key))

    def list_keys(self) -> list[Key]:
        """Lists the keys of the tenant, without their secrets."""
        return list(iterate_pages(self, lambda cursor: get(page(Key), "v1", "keys", query=_page(cursor))))

    def revoke_key(self, key_id: str) -> None:
        """Revokes a key."""
        self._send(Call("DELETE", path_of("v1", "keys", key_id), nothing))

    def create_tenant(self, tenant_id: str, *, policy: Optional[PolicyLike] = None) -> Tenant:
        """Creates a tenant. Like the other calls on tenants, this needs a service key."""
        return self._send(_create_tenant(tenant_id, policy))

    def list_tenants(self) -> list[Tenant]:
        """Lists all tenants."""
        return list(iterate_pages(self, lambda cursor: get(page(Tenant), "v1", "tenants", query=_page(cursor))))

    def get_tenant(self, tenant_id: str) -> Tenant:
        """Returns a tenant."""
        return self._send(get(document(Tenant), "v1", "tenants", tenant_id))

    def update_tenant(self, tenant_id: str, policy: PolicyLike) -> Tenant:
        """Replaces the entire policy of a tenant."""
        return self._send(_update_tenant(tenant_id, policy))

    def delete_tenant(self, tenant_id: str) -> None:
        """Deletes an empty tenant."""
        self._send(Call("DELETE", path_of("v1", "tenants", tenant_id), nothing))

    def get_usage(self) -> TenantUsage:
        """Returns how many bytes the tenant stores, and its quota."""
        return self._send(get(document(TenantUsage), "v1", "usage"))

    def get_webhook_secret(self) -> str:
        """Returns the secret with which `skillbox.webhooks.verify` verifies the tenant's webhooks."""
        return self._send(get(_secret, "v1", "webhooks", "secret"))

    def get_audit_head(self) -> SignedAuditHead:
        """Returns the signed head of the audit log, against which ``skillbox audit-log verify`` checks a log."""
        return self._send(get(document(SignedAuditHead), "v1", "audit", "head"))

    def iter_audit(self, *, page_size: int = 50) -> Iterator[AuditEntry]:
        """Iterates over the audit log, newest entry first, fetching pages lazily."""
        return iterate_pages(self, lambda cursor: get(page(AuditEntry), "v1", "audit", query=_page(cursor, page_size)))


class AsyncAdmin(AsyncSender):
    """Methods of `AsyncClient` for operators."""

    async def health(self) -> None:
        """See `Client.health`."""
        await self._send(get(nothing, "health"))

    async def ready(self) -> Readiness:
        """See `Client.ready`."""
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
        """See `Client.create_key`."""
        return await self._send(_create_key(name, scopes, skills, expires_at, service, key))

    async def list_keys(self) -> list[Key]:
        """See `Client.list_keys`."""
        return [
            key async for key in iterate_pages_async(self, lambda at: get(page(Key), "v1", "keys", query=_page(at)))
        ]

    async def revoke_key(self, key_id: str) -> None:
        """See `Client.revoke_key`."""
        await self._send(Call("DELETE", path_of("v1", "keys", key_id), nothing))

    async def create_tenant(self, tenant_id: str, *, policy: Optional[PolicyLike] = None) -> Tenant:
        """See `Client.create_tenant`."""
        return await self._send(_create_tenant(tenant_id, policy))

    async def list_tenants(self) -> list[Tenant]:
        """See `Client.list_tenants`."""
        return [
            row
            async for row in iterate_pages_async(self, lambda at: get(page(Tenant), "v1", "tenants", query=_page(at)))
        ]

    async def get_tenant(self, tenant_id: str) -> Tenant:
        """See `Client.get_tenant`."""
        return await self._send(get(document(Tenant), "v1", "tenants", tenant_id))

    async def update_tenant(self, tenant_id: str, policy: PolicyLike) -> Tenant:
        """See `Client.update_tenant`."""
        return await self._send(_update_tenant(tenant_id, policy))

    async def delete_tenant(self, tenant_id: str) -> None:
        """See `Client.delete_tenant`."""
        await self._send(Call("DELETE", path_of("v1", "tenants", tenant_id), nothing))

    async def get_usage(self) -> TenantUsage:
        """See `Client.get_usage`."""
        return await self._send(get(document(TenantUsage), "v1", "usage"))

    async def get_webhook_secret(self) -> str:
        """See `Client.get_webhook_secret`."""
        return await self._send(get(_secret, "v1", "webhooks", "secret"))

    async def get_audit_head(self) -> SignedAuditHead:
        """See `Client.get_audit_head`."""
        return await self._send(get(document(SignedAuditHead), "v1", "audit", "head"))

    def iter_audit(self, *, page_size: int = 50) -> AsyncIterator[AuditEntry]:
        """See `Client.iter_audit`; returns an async iterator."""
        return iterate_pages_async(
            self, lambda cursor: get(page(AuditEntry), "v1", "audit", query=_page(cursor, page_size))
        )


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
