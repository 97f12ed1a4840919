"""Trusted keys, revoked content, and receipts."""

from __future__ import annotations

from dataclasses import dataclass

from .._decode import Model, list_of


@dataclass
class TrustedKey(Model):
    """A public key trusted to sign this tenant's skills. After revocation, none of its signatures is trusted."""

    key_id: str = ""
    public_key: str = ""
    comment: str = ""
    added_at: str = ""
    revoked_at: str = ""


@dataclass
class RevokedDigest(Model):
    """Revoked content: it can no longer be published or run."""

    digest: str = ""
    reason: str = ""
    revoked_at: str = ""


@dataclass
class NewestVersion(Model):
    """The highest version of a skill that was published with a trusted signature."""

    name: str = ""
    version: str = ""
    accepted_at: str = ""


@dataclass
class Receipt(Model):
    """A signed receipt of an execution. The signature covers the exact bytes of `payload`: store them unchanged."""

    type: str = ""
    payload: str = ""
    signature: str = ""


@dataclass
class ReceiptKey(Model):
    """A public key for verifying receipts, in minisign's format."""

    key_id: str = ""
    public_key: str = ""


@dataclass
class ReceiptKeys(ReceiptKey):
    """The current key for verifying receipts; `previous` holds earlier keys, latest first."""

    previous: list[ReceiptKey] = list_of(ReceiptKey)
