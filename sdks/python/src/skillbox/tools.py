"""Skills as tools in the formats of OpenAI and Anthropic, as plain dictionaries; their packages are not required::

tools = to_openai_tools(client)
...  # send `tools` with your messages; for each tool call in the response:
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

# OpenAI rejects longer descriptions of a function.
OPENAI_DESCRIPTION_CHARS = 1024


def load_skills(client: Client, names: Optional[Iterable[str]] = None) -> list[SkillDetail]:
    """Loads the skills to offer: all that the key can see and run, or those with these names."""
    if names is not None:
        return [client.get_skill(name) for name in names]
    found = []
    for skill in filter(_can_run, client.list_skills()):
        # The skill may have been deleted or rejected since it was listed.
        with suppress(NotFoundError):
            found.append(client.get_skill(skill.name))
    return found


async def load_skills_async(client: AsyncClient, names: Optional[Iterable[str]] = None) -> list[SkillDetail]:
    """Asynchronous version of `load_skills`."""
    if names is not None:
        return [await client.get_skill(name) for name in names]
    found = []
    for skill in filter(_can_run, await client.list_skills()):
        with suppress(NotFoundError):
            found.append(await client.get_skill(skill.name))
    return found


def to_openai_tools(skills: SkillSource, *, description_chars: int = OPENAI_DESCRIPTION_CHARS) -> list[dict[str, Any]]:
    """Returns one function tool per skill, for `tools` of OpenAI's chat completions and compatible APIs.

    `skills` is a client, for all of its skills, or the result of `load_skills`.
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
        for binding in bind(_load_if_client(skills, "to_openai_tools_async"))
    ]


async def to_openai_tools_async(
    client: AsyncClient, *, description_chars: int = OPENAI_DESCRIPTION_CHARS
) -> list[dict[str, Any]]:
    """Like `to_openai_tools`, for all skills of an asynchronous client."""
    return to_openai_tools(await load_skills_async(client), description_chars=description_chars)


def to_anthropic_tools(skills: SkillSource, *, description_chars: int = DESCRIPTION_CHARS) -> list[dict[str, Any]]:
    """Returns one tool per skill, for `tools` of Anthropic's Messages API."""
    return [
        {
            "name": binding.name,
            "description": binding.description(description_chars),
            "input_schema": binding.schema,
        }
        for binding in bind(_load_if_client(skills, "to_anthropic_tools_async"))
    ]


async def to_anthropic_tools_async(
    client: AsyncClient, *, description_chars: int = DESCRIPTION_CHARS
) -> list[dict[str, Any]]:
    """Like `to_anthropic_tools`, for all skills of an asynchronous client."""
    return to_anthropic_tools(await load_skills_async(client), description_chars=description_chars)


def handle_tool_call(client: Client, call: Any, *, skills: Optional[Iterable[SkillDetail]] = None) -> dict[str, Any]:
    """Runs the skill that a model called and returns the reply message, in the format of the call.

    `call` is OpenAI's tool call (chat completions or responses) or Anthropic's `tool_use` block, as a dictionary or
    as an object of their packages. An invalid call or a failed run is reported to the model and not raised.
    If `skills` is given, they are not requested from the server again.
    """
    request = _Request.from_call(call)
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
    """Asynchronous version of `handle_tool_call`."""
    request = _Request.from_call(call)
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
    # None if the arguments of the model are not a JSON object.
    given: Optional[Mapping[str, Any]]
    answer: Callable[..., dict[str, Any]]

    @classmethod
    def from_call(cls, call: Any) -> _Request:
        block = call if isinstance(call, Mapping) else call.model_dump()
        if block.get("type") == "tool_use":
            return cls(block["name"], _arguments(block["input"]), _anthropic_answer(block["id"]))
        if block.get("type") == "function_call":
            return cls(block["name"], _arguments(block["arguments"]), _responses_answer(block["call_id"]))
        if "function" in block:
            function = block["function"]
            return cls(function["name"], _arguments(function["arguments"]), _openai_answer(block["id"]))
        raise ValueError("skillbox: this is neither a tool call of OpenAI nor a tool_use block of Anthropic")

    @property
    def arguments(self) -> Mapping[str, Any]:
        return self.given or {}

    def find(self, skills: Iterable[SkillDetail]) -> Union[Binding, str]:
        """Returns the requested skill, or an error message for the model."""
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
    """A listed skill without an available version is held for review or was rejected."""
    return skill.status == "available"


def _load_if_client(skills: SkillSource, awaited: str) -> Iterable[SkillDetail]:
    if isinstance(skills, AsyncClient):
        raise TypeError(f"skillbox: an AsyncClient cannot be asked without waiting; use: await {awaited}(client)")
    return load_skills(skills) if isinstance(skills, Client) else skills
