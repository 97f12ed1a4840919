"""A skill as a tool of a model: a name that model APIs take, a schema for arguments, and the run they become.

What a model sees is made here once, for LangChain and for the plain formats alike.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Optional

from .models import RunResult, SkillDetail

# What OpenAI and Anthropic both take: letters, digits, `_` and `-`, up to 64 of them.
MAX_NAME = 64
DESCRIPTION_CHARS = 8_000
# Enough of a log to see why a script failed.
LOG_TAIL_CHARS = 2_000


@dataclass(frozen=True)
class Binding:
    """One skill under the name that a model calls it by."""

    name: str
    skill: SkillDetail

    def description(self, limit: int = DESCRIPTION_CHARS) -> str:
        """What the skill does and how it is used, cut at `limit` characters."""
        text = f"{self.skill.description}\n\n{self.skill.instructions}".strip()
        return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments; always an object, since model APIs want one."""
        declared = self.skill.input_schema
        if not self.runs:
            return {"type": "object", "properties": {}}
        if not self.skill.entrypoint:
            return _script_schema(self.skill)
        if _is_object(declared):
            return dict(declared or {})
        return _wrapped(declared)

    @property
    def runs(self) -> bool:
        """Whether there is anything to run. A skill without scripts is instructions, which the tool then gives."""
        return self.skill.mode != "cognitive" and bool(self.skill.entrypoint or self.skill.scripts)

    def run_arguments(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of `Client.run` for what a model sent."""
        # Exactly what was described, also when a newer version is published meanwhile.
        common = {"skill": self.skill.name, "version": self.skill.version}
        if not self.skill.entrypoint:
            return {**common, **{key: arguments[key] for key in ("script", "args", "stdin") if key in arguments}}
        if _is_object(self.skill.input_schema):
            return {**common, "input": dict(arguments)}
        return {**common, "input": arguments.get("input", {})}


def bind(skills: Iterable[SkillDetail]) -> list[Binding]:
    """Names for skills. Those that would share one, or are too long, get a piece of their hash; order plays no role."""
    listed = list(skills)
    plain = {skill.name: "skillbox_" + re.sub(r"[^A-Za-z0-9_]", "_", skill.name) for skill in listed}
    taken = Counter(plain.values())
    return [Binding(_name(skill.name, plain[skill.name], taken), skill) for skill in listed]


def _name(skill: str, plain: str, taken: Mapping[str, int]) -> str:
    if taken[plain] == 1 and len(plain) <= MAX_NAME:
        return plain
    digest = hashlib.sha256(skill.encode()).hexdigest()[:8]
    return f"{plain[: MAX_NAME - 9]}_{digest}"


def answer_text(result: RunResult) -> str:
    """What a model reads of a run."""
    if not result.ok:
        said = result.stderr or result.logs
        cause = result.error or result.outcome or result.status
        return f"Error: {cause}" + (f"\n{said[-LOG_TAIL_CHARS:]}" if said else "")
    told: Any = result.output if result.output is not None else (result.stdout or result.logs)
    text = told if isinstance(told, str) else json.dumps(told, ensure_ascii=False)
    return text + (f"\nFiles: {', '.join(result.files_list)}" if result.files_list else "")


def _is_object(schema: Optional[Mapping[str, Any]]) -> bool:
    return schema is not None and (schema.get("type") == "object" or ("type" not in schema and "properties" in schema))


def _script_schema(skill: SkillDetail) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            "script": {"type": "string", "enum": [script.path for script in skill.scripts]},
            "args": {"type": "array", "items": {"type": "string"}, "description": "Command line arguments."},
            "stdin": {"type": "string", "description": "Standard input of the script."},
        },
        "required": ["script"],
    }


def _wrapped(declared: Optional[Mapping[str, Any]]) -> dict[str, Any]:
    """Any input, as the one argument `input`."""
    inner: dict[str, Any] = {"type": "object", "description": "The input document of the skill."}
    required: list[str] = []
    # A reference inside would point elsewhere now. The server checks the input in any case.
    if declared is not None and "$ref" not in json.dumps(declared):
        inner, required = dict(declared), ["input"]
    return {"type": "object", "properties": {"input": inner}, "required": required}
