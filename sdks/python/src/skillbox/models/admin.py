"""Keys, tenants, the audit log and readiness."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Optional

from .._decode import Model, nested_model


@dataclass
class Key(Model):
    """An API key. `key`, the secret itself, is only set in the response of `create_key`."""

    id: str = ""
    tenant_id: str = ""
    name: str = ""
    prefix: str = ""
    scopes: list[str] = field(default_factory=list)
    service: bool = False
    # The skills the key is restricted to; None means all.
    skills: Optional[list[str]] = None
    expires_at: str = ""
    revoked_at: str = ""
    created_at: str = ""
    key: str = field(default="", repr=False)


@dataclass
class Policy(Model):
    """Limits and rules of a tenant. None means no limit, unless a field says otherwise."""

    versions: str = "mutable"
    max_concurrent: Optional[int] = None
    max_queued: Optional[int] = None
    rate_per_minute: Optional[int] = None
    max_file_bytes: Optional[int] = None
    # Quota for everything the tenant stores; None means the server's default.
    max_stored_bytes: Optional[int] = None
    # None means the server's default, report.
    scan: Optional[str] = None
    # None means the server's default, off.
    signatures: Optional[str] = None
    weight: int = 1


@dataclass
class Tenant(Model):
    """A tenant, for operators."""

    id: str = ""
    policy: Policy = nested_model(Policy)
    created_at: str = ""


@dataclass
class TenantUsage(Model):
    """Storage used by a tenant: skills, files, artifacts with their archive, inputs, logs and outputs."""

    stored_bytes: int = 0
    # None if there is no limit.
    max_stored_bytes: Optional[int] = None


@dataclass
class AuditEntry(Model):
    """One entry of the audit log: actor, action and object."""

    id: str = ""
    tenant_id: str = ""
    actor: str = ""
    action: str = ""
    object: str = ""
    detail: Any = None
    request_id: str = ""
    created_at: str = ""
    seq: Optional[int] = None
    """Sequence number in the hash chain. Entries older than the chain have neither `seq` nor `hash`."""
    hash: str = ""


@dataclass
class SignedAuditHead(Model):
    """The last entry of the audit log, signed by the server. The signature covers the bytes of `payload`."""

    type: str = ""
    payload: str = ""
    signature: str = ""


@dataclass
class Readiness(Model):
    """Whether the server can run skills. Each value in `checks` is `ok` or a description of the problem."""

    status: str = ""
    checks: dict[str, str] = field(default_factory=dict)
    error: str = ""
    message: str = ""

    @property
    def ready(self) -> bool:
        return self.status == "ready"
