"""Skills, and what checks say about them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Optional

from .._decode import Model, many, maybe, one


@dataclass
class FindingCounts(Model):
    """How many findings of each severity an upload had."""

    error: int = 0
    warning: int = 0
    info: int = 0


@dataclass
class Skill(Model):
    """A row of a list of skills."""

    name: str = ""
    version: str = ""
    description: str = ""
    lang: str = ""
    mode: str = ""
    # `available`; `review` while it waits for an approval; `rejected`.
    status: str = ""
    digest: str = ""
    finding_counts: FindingCounts = one(FindingCounts)
    size_bytes: int = 0
    created_at: str = ""
    updated_at: str = ""


@dataclass
class Script(Model):
    """A file of a skill that can run."""

    path: str = ""
    lang: str = ""
    # What it says about itself.
    description: str = ""


@dataclass
class Finding(Model):
    """Something a check noticed about a skill; `severity` is `error`, `warning` or `info`."""

    code: str = ""
    severity: str = ""
    path: str = ""
    line: Optional[int] = None
    message: str = ""


@dataclass
class PublishedSkill(Skill):
    """The answer to an upload."""

    entrypoint: str = ""
    scripts: list[Script] = many(Script)
    findings: list[Finding] = many(Finding)


@dataclass
class Validation(Model):
    """What an upload would be told."""

    valid: bool = False
    name: str = ""
    version: str = ""
    digest: str = ""
    findings: list[Finding] = many(Finding)


@dataclass
class SkillSignature(Model):
    """The signature that a skill came with; `problem` says why it is not `trusted`."""

    text: str = ""
    key_id: str = ""
    signed_at: str = ""
    trusted: bool = False
    problem: str = ""


@dataclass
class SkillDetail(Model):
    """One version of a skill in full, with the instructions of its SKILL.md."""

    name: str = ""
    version: str = ""
    description: str = ""
    lang: str = ""
    image: str = ""
    instructions: str = ""
    timeout: str = ""
    resources: dict[str, str] = field(default_factory=dict)
    mode: str = ""
    scripts: list[Script] = many(Script)
    # The script that runs when the caller names none; empty when there is none.
    entrypoint: str = ""
    input_schema: Optional[dict[str, Any]] = None
    output_schema: Optional[dict[str, Any]] = None
    permissions: Any = None
    signature: Optional[SkillSignature] = maybe(SkillSignature)
    digest: str = ""
    status: str = ""
    findings: list[Finding] = many(Finding)
    license: str = ""
    compatibility: str = ""
    allowed_tools: str = ""
    metadata: Any = None
    size_bytes: int = 0
    created_at: str = ""
    updated_at: str = ""


@dataclass
class SkillFile(Model):
    """A file of a skill."""

    path: str = ""
    size_bytes: int = 0
    executable: bool = False
