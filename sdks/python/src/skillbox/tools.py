"""Skills as tools in the formats of OpenAI and Anthropic, as plain dictionaries: none of their packages is needed::

tools = to_openai_tools(client)
...  # send `tools` with your messages; for each tool call that comes back:
messages.append(handle_tool_call(client, tool_call))
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Callable, Optional, Union

from ._binding import DESCRIPTION_CHARS, Binding, answer_text, bind
from .client import AsyncClient, Client
from .errors import APIError, NotFoundError
from .models import Skill, SkillDetail

SkillSource = Union[Client, Iterable[SkillDetail]]

# OpenAI refuses a longer description of a function.
OPENAI_DESCRIPTION_CHARS = 1024


def load_skills(client: Client, names: Optional[Iterable[str]] = None) -> list[SkillDetail]:
    """The skills to offer: all that the key can see and run, or those with these names."""
    if names is not None:
        return [client.get_skill(name) for name in names]
    found = []
    for skill in filter(_can_run, client.list_skills()):
        # It may have been removed or rejected since it was listed.
        with suppress(NotFoundError):
            found.append(client.get_skill(skill.name))
    return found


async def load_skills_async(client: AsyncClient, names: Optional[Iterable[str]] = None) -> list[SkillDetail]:
    """As `load_skills`."""
    if names is not None:
        return [await client.get_skill(name) for name in names]
    found = []
    for skill in filter(_can_run, await client.list_skills()):
        with suppress(NotFoundError):
            found.append(await client.get_skill(skill.name))
    return found


def to_openai_tools(skills: SkillSource, *, description_chars: int = OPENAI_DESCRIPTION_CHARS) -> list[dict[str, Any]]:
    """One function tool a skill, for `tools` of OpenAI's chat completions and of everything that copies them.

    `skills` is a client, for all of its skills, or what `load_skills` gave.
    """
    return [
        {
            "type": "function",
            "function": {
                "name": binding.name,
                "description": binding.description(description_chars),
                "parameters": binding.schema,
            },
        }
        for binding in bind(_loaded(skills, "to_openai_tools_async"))
    ]


async def to_openai_tools_async(
    client: AsyncClient, *, description_chars: int = OPENAI_DESCRIPTION_CHARS
) -> list[dict[str, Any]]:
    """As `to_openai_tools`, for all skills of an asynchronous client."""
    return to_openai_tools(await load_skills_async(client), description_chars=description_chars)


def to_anthropic_tools(skills: SkillSource, *, description_chars: int = DESCRIPTION_CHARS) -> list[dict[str, Any]]:
    """One tool a skill, for `tools` of Anthropic's messages."""
    return [
        {
            "name": binding.name,
            "description": binding.description(description_chars),
            "input_schema": binding.schema,
        }
        for binding in bind(_loaded(skills, "to_anthropic_tools_async"))
    ]


async def to_anthropic_tools_async(
    client: AsyncClient, *, description_chars: int = DESCRIPTION_CHARS
) -> list[dict[str, Any]]:
    """As `to_anthropic_tools`, for all skills of an asynchronous client."""
    return to_anthropic_tools(await load_skills_async(client), description_chars=description_chars)


def handle_tool_call(client: Client, call: Any, *, skills: Optional[Iterable[SkillDetail]] = None) -> dict[str, Any]:
    """Runs the skill that a model called, and gives the message to answer it with, in the format it was called in.

    `call` is OpenAI's tool call (chat completions or responses) or Anthropic's `tool_use` block, as a dictionary or
    as their packages' object. A call that makes no sense, and a run that fails, are told to the model, not raised.
    With `skills` the server is not asked for them again.
    """
    request = _Request.of(call)
    found = request.find(load_skills(client) if skills is None else skills)
    if isinstance(found, str):
        return request.answer(found, failed=True)
    if not found.runs:
        return request.answer(found.skill.instructions)
    try:
        result = client.run(**found.run_arguments(request.arguments))
    except APIError as error:
        return request.answer(f"Error: {error.message}", failed=True)
    return request.answer(answer_text(result), failed=not result.ok)


async def handle_tool_call_async(
    client: AsyncClient, call: Any, *, skills: Optional[Iterable[SkillDetail]] = None
) -> dict[str, Any]:
    """As `handle_tool_call`."""
    request = _Request.of(call)
    found = request.find(await load_skills_async(client) if skills is None else skills)
    if isinstance(found, str):
        return request.answer(found, failed=True)
    if not found.runs:
        return request.answer(found.skill.instructions)
    try:
        result = await client.run(**found.run_arguments(request.arguments))
    except APIError as error:
        return request.answer(f"Error: {error.message}", failed=True)
    return request.answer(answer_text(result), failed=not result.ok)


@dataclass(frozen=True)
class _Request:
    name: str
    # None when what the model wrote is not a JSON object.
    given: Optional[Mapping[str, Any]]
    answer: Callable[..., dict[str, Any]]

    @classmethod
    def of(cls, call: Any) -> _Request:
        told = call if isinstance(call, Mapping) else call.model_dump()
        if told.get("type") == "tool_use":
            return cls(told["name"], _arguments(told["input"]), _anthropic_answer(told["id"]))
        if told.get("type") == "function_call":
            return cls(told["name"], _arguments(told["arguments"]), _responses_answer(told["call_id"]))
        if "function" in told:
            function = told["function"]
            return cls(function["name"], _arguments(function["arguments"]), _openai_answer(told["id"]))
        raise ValueError("skillbox: this is neither a tool call of OpenAI nor a tool_use block of Anthropic")

    @property
    def arguments(self) -> Mapping[str, Any]:
        return self.given or {}

    def find(self, skills: Iterable[SkillDetail]) -> Union[Binding, str]:
        """The skill that is meant, or a sentence for the model."""
        if self.given is None:
            return "Error: the arguments are not a JSON object."
        for binding in bind(skills):
            if binding.name == self.name:
                return binding
        return f"Error: there is no tool {self.name}."


def _arguments(given: Any) -> Optional[Mapping[str, Any]]:
    if isinstance(given, str):
        try:
            given = json.loads(given or "{}")
        except ValueError:
            return None
    return given if isinstance(given, Mapping) else None


def _openai_answer(call_id: str) -> Callable[..., dict[str, Any]]:
    return lambda text, failed=False: {"role": "tool", "tool_call_id": call_id, "content": text}


def _responses_answer(call_id: str) -> Callable[..., dict[str, Any]]:
    return lambda text, failed=False: {"type": "function_call_output", "call_id": call_id, "output": text}


def _anthropic_answer(call_id: str) -> Callable[..., dict[str, Any]]:
    return lambda text, failed=False: {
        "type": "tool_result",
        "tool_use_id": call_id,
        "content": text,
        "is_error": failed,
    }


def _can_run(skill: Skill) -> bool:
    """A skill that is listed but has no available version waits for a review, or was rejected."""
    return skill.status == "available"


def _loaded(skills: SkillSource, awaited: str) -> Iterable[SkillDetail]:
    if isinstance(skills, AsyncClient):
        raise TypeError(f"skillbox: an AsyncClient cannot be asked without waiting; use: await {awaited}(client)")
    return load_skills(skills) if isinstance(skills, Client) else skills
