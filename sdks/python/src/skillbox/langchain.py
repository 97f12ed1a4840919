"""Skills as LangChain tools; needs ``pip install "skillbox[langchain]"``::

from langgraph.prebuilt import create_react_agent
from skillbox.langchain import build_skillbox_toolkit

agent = create_react_agent(model, build_skillbox_toolkit("http://localhost:8080", "sk-..."))
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, Optional, Union

try:
    from langchain_core.tools import BaseTool, BaseToolkit, ToolException
except ImportError as cause:
    raise ImportError('skillbox.langchain needs LangChain: pip install "skillbox[langchain]"') from cause
from pydantic import ConfigDict, PrivateAttr

from ._binding import DESCRIPTION_CHARS, Binding, answer_text, bind
from .client import AsyncClient, Client
from .errors import APIError
from .models import RunResult, SkillDetail
from .tools import load_skills


class SkillboxTool(BaseTool):
    """One skill as a tool. The artifact of its message is the full `RunResult`, for example to download files."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    client: Client
    skill: SkillDetail
    response_format: Literal["content", "content_and_artifact"] = "content_and_artifact"
    # A failed run is reported to the model; it must not abort the agent.
    handle_tool_error: Any = True
    _binding: Binding = PrivateAttr()

    def __init__(self, client: Client, skill: SkillDetail, *, name: str = "", **more: Any) -> None:
        binding = bind([skill])[0] if not name else Binding(name, skill)
        fields: dict[str, Any] = {
            "name": binding.name,
            "description": binding.description(),
            "args_schema": binding.schema,
        }
        super().__init__(client=client, skill=skill, **{**fields, **more})
        self._binding = binding

    def _run(self, **arguments: Any) -> tuple[str, Optional[RunResult]]:
        if not self._binding.runs:
            return self.skill.instructions, None
        try:
            result = self.client.run(**self._binding.run_arguments(arguments))
        except APIError as error:
            raise ToolException(f"Error: {error.message}") from error
        return _tool_output(result)

    async def _arun(self, **arguments: Any) -> tuple[str, Optional[RunResult]]:
        if not self._binding.runs:
            return self.skill.instructions, None
        try:
            result = await self._async_client().run(**self._binding.run_arguments(arguments))
        except APIError as error:
            raise ToolException(f"Error: {error.message}") from error
        return _tool_output(result)

    def _async_client(self) -> AsyncClient:
        own = self.client
        return AsyncClient(own.base_url, own.api_key, tenant_id=own.tenant_id, timeout=own.timeout, retries=own.retries)


class SkillboxToolkit(BaseToolkit):
    """The skills of a server as tools: all skills visible to the key, or those named in `skills`."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    client: Client
    skills: Optional[list[str]] = None
    # Some models accept less; OpenAI's API accepts 1024.
    description_chars: int = DESCRIPTION_CHARS

    def get_tools(self) -> list[BaseTool]:
        bindings = bind(load_skills(self.client, self.skills))
        return [
            SkillboxTool(
                self.client, binding.skill, name=binding.name, description=binding.description(self.description_chars)
            )
            for binding in bindings
        ]


def build_skillbox_toolkit(
    base_url: str,
    api_key: str = "",
    *,
    tenant_id: str = "",
    skills: Optional[Iterable[str]] = None,
    description_chars: int = DESCRIPTION_CHARS,
) -> list[BaseTool]:
    """Returns one tool for each skill of the server, ready to pass to an agent."""
    client = Client(base_url, api_key, tenant_id=tenant_id)
    names: Union[list[str], None] = None if skills is None else list(skills)
    return SkillboxToolkit(client=client, skills=names, description_chars=description_chars).get_tools()


def _tool_output(result: RunResult) -> tuple[str, RunResult]:
    if not result.ok:
        raise ToolException(answer_text(result))
    return answer_text(result), result
