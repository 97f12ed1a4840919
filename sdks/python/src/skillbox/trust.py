"""Calls for reviewers and operators: trusted keys, revoked content, reviews and receipts."""

from __future__ import annotations

from typing import TypeVar

from ._aio_http import AsyncSender
from ._call import Call, Page, document, get, json_body, nothing, page, path_of, query_of
from ._decode import Model
from ._http import Sender
from ._paging import iterate_pages, iterate_pages_async
from .models import NewestVersion, Receipt, ReceiptKeys, RevokedDigest, Skill, TrustedKey

M = TypeVar("M", bound=Model)


class Trust(Sender):
    """Methods of `Client` that manage trust."""

    def trust_key(self, public_key: str, *, comment: str = "") -> TrustedKey:
        """Adds a trusted key for signing skills: the text of a minisign public key file, or its second line."""
        return self._send(_trust_key(public_key, comment))

    def list_trusted_keys(self) -> list[TrustedKey]:
        """Lists the keys trusted to sign this tenant's skills, including revoked ones."""
        return list(iterate_pages(self, lambda cursor: _page(TrustedKey, cursor, "keys")))

    def revoke_trusted_key(self, key_id: str) -> None:
        """Revokes a trusted key permanently, including for existing signatures."""
        self._send(_remove("keys", key_id))

    def revoke_digest(self, digest: str, *, reason: str = "") -> RevokedDigest:
        """Revokes content: it can no longer be published or run. Revoking it again changes the reason."""
        return self._send(_revoke_digest(digest, reason))

    def list_revoked_digests(self) -> list[RevokedDigest]:
        """Lists revoked content."""
        return list(iterate_pages(self, lambda cursor: _page(RevokedDigest, cursor, "digests")))

    def restore_digest(self, digest: str) -> None:
        """Undoes the revocation of content."""
        self._send(_remove("digests", digest))

    def list_newest_versions(self) -> list[NewestVersion]:
        """Lists the newest signed version of each skill; `latest` never resolves to an older one."""
        return list(iterate_pages(self, lambda cursor: _page(NewestVersion, cursor, "versions")))

    def forget_newest_version(self, name: str) -> None:
        """Forgets the newest signed version of a skill, so that `latest` can resolve to an older one."""
        self._send(_remove("versions", name))

    def approve_skill(self, name: str, version: str, *, digest: str = "") -> Skill:
        """Approves a skill that is held for review; with `digest`, only if its content still has this digest."""
        return self._send(_review("approve", name, version, digest))

    def reject_skill(self, name: str, version: str, *, digest: str = "") -> Skill:
        """Rejects a skill: it can no longer run, even if the same content is uploaded again."""
        return self._send(_review("reject", name, version, digest))

    def get_receipt(self, execution_id: str) -> Receipt:
        """Returns the signed receipt of an execution that a worker finished."""
        return self._send(get(document(Receipt), "v1", "executions", execution_id, "receipt"))

    def get_receipt_keys(self) -> ReceiptKeys:
        """Returns the key for verifying receipts, and earlier keys.

        Store the key on first use and compare it afterwards.
        """
        return self._send(get(document(ReceiptKeys), "v1", "receipts", "key"))


class AsyncTrust(AsyncSender):
    """Methods of `AsyncClient` that manage trust."""

    async def trust_key(self, public_key: str, *, comment: str = "") -> TrustedKey:
        """See `Client.trust_key`."""
        return await self._send(_trust_key(public_key, comment))

    async def list_trusted_keys(self) -> list[TrustedKey]:
        """See `Client.list_trusted_keys`."""
        return [row async for row in iterate_pages_async(self, lambda cursor: _page(TrustedKey, cursor, "keys"))]

    async def revoke_trusted_key(self, key_id: str) -> None:
        """See `Client.revoke_trusted_key`."""
        await self._send(_remove("keys", key_id))

    async def revoke_digest(self, digest: str, *, reason: str = "") -> RevokedDigest:
        """See `Client.revoke_digest`."""
        return await self._send(_revoke_digest(digest, reason))

    async def list_revoked_digests(self) -> list[RevokedDigest]:
        """See `Client.list_revoked_digests`."""
        return [row async for row in iterate_pages_async(self, lambda cursor: _page(RevokedDigest, cursor, "digests"))]

    async def restore_digest(self, digest: str) -> None:
        """See `Client.restore_digest`."""
        await self._send(_remove("digests", digest))

    async def list_newest_versions(self) -> list[NewestVersion]:
        """See `Client.list_newest_versions`."""
        return [row async for row in iterate_pages_async(self, lambda cursor: _page(NewestVersion, cursor, "versions"))]

    async def forget_newest_version(self, name: str) -> None:
        """See `Client.forget_newest_version`."""
        await self._send(_remove("versions", name))

    async def approve_skill(self, name: str, version: str, *, digest: str = "") -> Skill:
        """See `Client.approve_skill`."""
        return await self._send(_review("approve", name, version, digest))

    async def reject_skill(self, name: str, version: str, *, digest: str = "") -> Skill:
        """See `Client.reject_skill`."""
        return await self._send(_review("reject", name, version, digest))

    async def get_receipt(self, execution_id: str) -> Receipt:
        """See `Client.get_receipt`."""
        return await self._send(get(document(Receipt), "v1", "executions", execution_id, "receipt"))

    async def get_receipt_keys(self) -> ReceiptKeys:
        """See `Client.get_receipt_keys`."""
        return await self._send(get(document(ReceiptKeys), "v1", "receipts", "key"))


def _trust_key(public_key: str, comment: str) -> Call[TrustedKey]:
    body = {"public_key": public_key, **({"comment": comment} if comment else {})}
    return Call("POST", path_of("v1", "trust", "keys"), document(TrustedKey), body=json_body(body))


def _revoke_digest(digest: str, reason: str) -> Call[RevokedDigest]:
    body = json_body({"digest": digest, **({"reason": reason} if reason else {})})
    return Call("POST", path_of("v1", "trust", "digests"), document(RevokedDigest), body=body, repeatable=True)


def _review(decision: str, name: str, version: str, digest: str) -> Call[Skill]:
    path = path_of("v1", "skills", name, version, decision)
    return Call("POST", path, document(Skill), query=query_of(digest=digest))


def _page(model: type[M], cursor: str, of: str) -> Call[Page[M]]:
    return get(page(model), "v1", "trust", of, query=query_of(limit=200, cursor=cursor))


def _remove(*segments: str) -> Call[None]:
    return Call("DELETE", path_of("v1", "trust", *segments), nothing)
