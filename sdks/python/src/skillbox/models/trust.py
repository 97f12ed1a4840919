"""Whom and what a tenant trusts, and what the server signs."""

from __future__ import annotations

from dataclasses import dataclass

from .._decode import Model, many


@dataclass
class TrustedKey(Model):
    """A public key that may sign this tenant's skills; once revoked, nothing it ever signed counts."""

    key_id: str = ""
    public_key: str = ""
    comment: str = ""
    added_at: str = ""
    revoked_at: str = ""


@dataclass
class RevokedDigest(Model):
    """Content that nobody runs any more."""

    digest: str = ""
    reason: str = ""
    revoked_at: str = ""


@dataclass
class NewestVersion(Model):
    """The highest version of a skill that was uploaded with a trusted signature."""

    name: str = ""
    version: str = ""
    accepted_at: str = ""


@dataclass
class Receipt(Model):
    """What the server signed about an execution. The bytes of `payload` are what counts: keep them as they came."""

    type: str = ""
    payload: str = ""
    signature: str = ""


@dataclass
class ReceiptKey(Model):
    """A public key of receipts, as minisign writes it."""

    key_id: str = ""
    public_key: str = ""


@dataclass
class ReceiptKeys(ReceiptKey):
    """The key that receipts are signed with; `previous` are those before it, the latest first."""

    previous: list[ReceiptKey] = many(ReceiptKey)
