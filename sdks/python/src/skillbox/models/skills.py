"""Skills and findings about them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Optional

from .._decode import Model, list_of, nested_model, optional_model


@dataclass
class FindingCounts(Model):
    """Number of findings of an upload, by severity."""

    error: int = 0
    warning: int = 0
    info: int = 0


@dataclass
class Skill(Model):
    """An entry in a list of skills."""

    name: str = ""
    version: str = ""
    description: str = ""
    lang: str = ""
    mode: str = ""
    # `available`, `review` (held for review) or `rejected`.
    status: str = ""
    digest: str = ""
    finding_counts: FindingCounts = nested_model(FindingCounts)
    size_bytes: int = 0
    created_at: str = ""
    updated_at: str = ""


@dataclass
class Script(Model):
    """An executable script of a skill."""

    path: str = ""
    lang: str = ""
    # Taken from the script itself.
    description: str = ""


@dataclass
class Finding(Model):
    """A finding of the linter or the scanner; `severity` is `error`, `warning` or `info`."""

    code: str = ""
    severity: str = ""
    path: str = ""
    line: Optional[int] = None
    message: str = ""


@dataclass
class PublishedSkill(Skill):
    """The response to publishing a skill."""

    entrypoint: str = ""
    scripts: list[Script] = list_of(Script)
    findings: list[Finding] = list_of(Finding)


@dataclass
class Validation(Model):
    """The result of validating a skill without publishing it."""

    valid: bool = False
    name: str = ""
    version: str = ""
    digest: str = ""
    findings: list[Finding] = list_of(Finding)


@dataclass
class SkillSignature(Model):
    """The signature of a skill; `problem` explains why it is not `trusted`."""

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
    scripts: list[Script] = list_of(Script)
    # The script that runs by default; empty if there is none.
    entrypoint: str = ""
    input_schema: Optional[dict[str, Any]] = None
    output_schema: Optional[dict[str, Any]] = None
    permissions: Any = None
    signature: Optional[SkillSignature] = optional_model(SkillSignature)
    digest: str = ""
    status: str = ""
    findings: list[Finding] = list_of(Finding)
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
