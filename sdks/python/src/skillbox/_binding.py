"""Maps a skill to a tool for a model: a name that model APIs accept, an argument schema, and the arguments of the run.

LangChain and the plain formats share this code, so a model sees the same tools in both.
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

# Accepted by both OpenAI and Anthropic: letters, digits, `_` and `-`, at most 64 characters.
MAX_NAME = 64
DESCRIPTION_CHARS = 8_000
# Enough of the log to show why a script failed.
LOG_TAIL_CHARS = 2_000


@dataclass(frozen=True)
class Binding:
    """One skill with the tool name that a model uses for it."""

    name: str
    skill: SkillDetail

    def description(self, limit: int = DESCRIPTION_CHARS) -> str:
        """Returns the description and the instructions of the skill, truncated to `limit` characters."""
        text = f"{self.skill.description}\n\n{self.skill.instructions}".strip()
        return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments. Always an object, because model APIs require one."""
        declared = self.skill.input_schema
        if not self.runs:
            return {"type": "object", "properties": {}}
        if not self.skill.entrypoint:
            return _script_schema(self.skill)
        if _is_object(declared):
            return dict(declared or {})
        return _wrap_schema(declared)

    @property
    def runs(self) -> bool:
        """Whether the skill can be run. For a skill without scripts, the tool returns the instructions instead."""
        return self.skill.mode != "cognitive" and bool(self.skill.entrypoint or self.skill.scripts)

    def run_arguments(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Converts the arguments that a model sent to arguments of `Client.run`."""
        # Run the version that was described, even if a newer one has been published since.
        common = {"skill": self.skill.name, "version": self.skill.version}
        if not self.skill.entrypoint:
            return {**common, **{key: arguments[key] for key in ("script", "args", "stdin") if key in arguments}}
        if _is_object(self.skill.input_schema):
            return {**common, "input": dict(arguments)}
        return {**common, "input": arguments.get("input", {})}


def bind(skills: Iterable[SkillDetail]) -> list[Binding]:
    """Assigns tool names. Ambiguous and overlong names get part of a hash; the order of `skills` does not matter."""
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
    """Formats the result of a run as text for a model."""
    if not result.ok:
        log = result.stderr or result.logs
        cause = result.error or result.outcome or result.status
        return f"Error: {cause}" + (f"\n{log[-LOG_TAIL_CHARS:]}" if log else "")
    value: Any = result.output if result.output is not None else (result.stdout or result.logs)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
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


def _wrap_schema(declared: Optional[Mapping[str, Any]]) -> dict[str, Any]:
    """Wraps an input schema that is not an object in an object with the property `input`."""
    inner: dict[str, Any] = {"type": "object", "description": "The input document of the skill."}
    required: list[str] = []
    # A `$ref` would resolve to a different place after wrapping. The server validates the input in any case.
    if declared is not None and "$ref" not in json.dumps(declared):
        inner, required = dict(declared), ["input"]
    return {"type": "object", "properties": {"input": inner}, "required": required}
