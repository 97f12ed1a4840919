"""For reviewers and operators: which keys and which content a tenant trusts, and the receipts of executions."""

from __future__ import annotations

from typing import TypeVar

from ._aio_http import AsyncSender
from ._call import Call, Page, document, get, json_body, nothing, page, path_of, query_of
from ._decode import Model
from ._http import Sender
from ._paging import walk, walk_async
from .models import NewestVersion, Receipt, ReceiptKeys, RevokedDigest, Skill, TrustedKey

M = TypeVar("M", bound=Model)


class Trust(Sender):
    """The part of `Client` about trust."""

    def trust_key(self, public_key: str, *, comment: str = "") -> TrustedKey:
        """Trusts a key that signs skills: the text of a minisign public key file, or its second line."""
        return self._send(_trust_key(public_key, comment))

    def list_trusted_keys(self) -> list[TrustedKey]:
        """The keys that may sign this tenant's skills, the revoked ones too."""
        return list(walk(self, lambda cursor: _page(TrustedKey, cursor, "keys")))

    def revoke_trusted_key(self, key_id: str) -> None:
        """Ends the trust in a key for good, also in what it signed before."""
        self._send(_remove("keys", key_id))

    def revoke_digest(self, digest: str, *, reason: str = "") -> RevokedDigest:
        """Lets nobody publish or run this content from now on. Revoking again changes the reason."""
        return self._send(_revoke_digest(digest, reason))

    def list_revoked_digests(self) -> list[RevokedDigest]:
        """The content that was revoked."""
        return list(walk(self, lambda cursor: _page(RevokedDigest, cursor, "digests")))

    def restore_digest(self, digest: str) -> None:
        """Takes the revocation of content back."""
        self._send(_remove("digests", digest))

    def list_newest_versions(self) -> list[NewestVersion]:
        """The newest signed version of each skill, which `latest` does not go back behind."""
        return list(walk(self, lambda cursor: _page(NewestVersion, cursor, "versions")))

    def forget_newest_version(self, name: str) -> None:
        """Lets a skill go back to an older version."""
        self._send(_remove("versions", name))

    def approve_skill(self, name: str, version: str, *, digest: str = "") -> Skill:
        """Lets a skill run that was held for review; with `digest`, only if that is still its content."""
        return self._send(_review("approve", name, version, digest))

    def reject_skill(self, name: str, version: str, *, digest: str = "") -> Skill:
        """Lets a skill run no more, neither now nor when the same content is uploaded again."""
        return self._send(_review("reject", name, version, digest))

    def get_receipt(self, execution_id: str) -> Receipt:
        """What the server signed about an execution that a worker ended."""
        return self._send(get(document(Receipt), "v1", "executions", execution_id, "receipt"))

    def get_receipt_keys(self) -> ReceiptKeys:
        """The key that receipts are signed with, and earlier ones. Keep it when you first see it, and compare."""
        return self._send(get(document(ReceiptKeys), "v1", "receipts", "key"))


class AsyncTrust(AsyncSender):
    """The part of `AsyncClient` about trust."""

    async def trust_key(self, public_key: str, *, comment: str = "") -> TrustedKey:
        """As `Client.trust_key`."""
        return await self._send(_trust_key(public_key, comment))

    async def list_trusted_keys(self) -> list[TrustedKey]:
        """As `Client.list_trusted_keys`."""
        return [row async for row in walk_async(self, lambda cursor: _page(TrustedKey, cursor, "keys"))]

    async def revoke_trusted_key(self, key_id: str) -> None:
        """As `Client.revoke_trusted_key`."""
        await self._send(_remove("keys", key_id))

    async def revoke_digest(self, digest: str, *, reason: str = "") -> RevokedDigest:
        """As `Client.revoke_digest`."""
        return await self._send(_revoke_digest(digest, reason))

    async def list_revoked_digests(self) -> list[RevokedDigest]:
        """As `Client.list_revoked_digests`."""
        return [row async for row in walk_async(self, lambda cursor: _page(RevokedDigest, cursor, "digests"))]

    async def restore_digest(self, digest: str) -> None:
        """As `Client.restore_digest`."""
        await self._send(_remove("digests", digest))

    async def list_newest_versions(self) -> list[NewestVersion]:
        """As `Client.list_newest_versions`."""
        return [row async for row in walk_async(self, lambda cursor: _page(NewestVersion, cursor, "versions"))]

    async def forget_newest_version(self, name: str) -> None:
        """As `Client.forget_newest_version`."""
        await self._send(_remove("versions", name))

    async def approve_skill(self, name: str, version: str, *, digest: str = "") -> Skill:
        """As `Client.approve_skill`."""
        return await self._send(_review("approve", name, version, digest))

    async def reject_skill(self, name: str, version: str, *, digest: str = "") -> Skill:
        """As `Client.reject_skill`."""
        return await self._send(_review("reject", name, version, digest))

    async def get_receipt(self, execution_id: str) -> Receipt:
        """As `Client.get_receipt`."""
        return await self._send(get(document(Receipt), "v1", "executions", execution_id, "receipt"))

    async def get_receipt_keys(self) -> ReceiptKeys:
        """As `Client.get_receipt_keys`."""
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
