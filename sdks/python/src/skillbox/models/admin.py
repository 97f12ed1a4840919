"""Keys, tenants, the audit trail and readiness."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Optional

from .._decode import Model, one


@dataclass
class Key(Model):
    """An API key. `key`, the secret itself, is only there in the answer that made it."""

    id: str = ""
    tenant_id: str = ""
    name: str = ""
    prefix: str = ""
    scopes: list[str] = field(default_factory=list)
    service: bool = False
    # The only skills it may use; None means all.
    skills: Optional[list[str]] = None
    expires_at: str = ""
    revoked_at: str = ""
    created_at: str = ""
    key: str = field(default="", repr=False)


@dataclass
class Policy(Model):
    """What a tenant may do. None means no such limit."""

    versions: str = "mutable"
    max_concurrent: Optional[int] = None
    max_queued: Optional[int] = None
    rate_per_minute: Optional[int] = None
    max_file_bytes: Optional[int] = None
    # Everything the tenant stores; None leaves it to the server.
    max_stored_bytes: Optional[int] = None
    # None leaves it to the server: report.
    scan: Optional[str] = None
    # None leaves it to the server: off.
    signatures: Optional[str] = None
    weight: int = 1


@dataclass
class Tenant(Model):
    """A tenant, for operators."""

    id: str = ""
    policy: Policy = one(Policy)
    created_at: str = ""


@dataclass
class TenantUsage(Model):
    """What a tenant stores: skills, files, artifacts with their archive, inputs, logs and outputs."""

    stored_bytes: int = 0
    # None where there is no limit.
    max_stored_bytes: Optional[int] = None


@dataclass
class AuditEntry(Model):
    """One change: who did what, to what."""

    id: str = ""
    tenant_id: str = ""
    actor: str = ""
    action: str = ""
    object: str = ""
    detail: Any = None
    request_id: str = ""
    created_at: str = ""
    seq: Optional[int] = None
    """Its number in the chain of the log; absent, like `hash`, in entries from before the chain."""
    hash: str = ""


@dataclass
class SignedAuditHead(Model):
    """The last entry of the audit log as the server signed it. The bytes of `payload` are what counts."""

    type: str = ""
    payload: str = ""
    signature: str = ""


@dataclass
class Readiness(Model):
    """Whether the server can run skills, and what it needs: each of `checks` is `ok` or what is wrong."""

    status: str = ""
    checks: dict[str, str] = field(default_factory=dict)
    error: str = ""
    message: str = ""

    @property
    def ready(self) -> bool:
        return self.status == "ready"
