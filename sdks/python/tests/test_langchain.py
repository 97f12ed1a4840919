"""Skills in a real LangGraph agent; only the model is scripted."""

import asyncio
import json

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.prebuilt import create_react_agent
from pydantic import Field

from skillbox import Client, SkillDetail
from skillbox.langchain import SkillboxTool, SkillboxToolkit, build_skillbox_toolkit

from .conftest import ROOT

NAMES = ["word-counter", "svg-chart", "text-tools", "invoice-total"]


class ScriptedModel(BaseChatModel):
    """Says what it was told to say, and remembers the tools and messages it was given."""

    script: list
    seen: list = Field(default_factory=list)
    offered: list = Field(default_factory=list)

    @property
    def _llm_type(self):
        return "scripted"

    def bind_tools(self, tools, **settings):
        self.offered.extend(convert_to_openai_tool(tool) for tool in tools)
        return self

    def _generate(self, messages, stop=None, run_manager=None, **settings):
        self.seen.append(list(messages))
        turn = sum(isinstance(message, AIMessage) for message in messages)
        return ChatResult(generations=[ChatGeneration(message=self.script[turn])])


def calls(*wanted):
    return AIMessage(
        content="",
        tool_calls=[{"name": name, "args": args, "id": f"call_{at}"} for at, (name, args) in enumerate(wanted)],
    )


@pytest.fixture
def tools(live):
    return build_skillbox_toolkit(live.base_url, live.api_key, skills=NAMES)


def test_an_agent_uses_skills(tools):
    model = ScriptedModel(
        script=[
            calls(
                ("skillbox_word_counter", {"input": {"text": "one two two"}}),
                ("skillbox_text_tools", {"script": "scripts/slug.py", "stdin": "Grüße, World!"}),
            ),
            calls(("skillbox_svg_chart", {"input": {"title": "Sales", "points": [{"label": "Q1", "value": 3}]}})),
            AIMessage(content="done"),
        ]
    )
    state = create_react_agent(model, tools).invoke({"messages": [("user", "Count, slug and draw.")]})
    told = {message.name: message for message in state["messages"] if isinstance(message, ToolMessage)}
    assert json.loads(told["skillbox_word_counter"].content)["words"] == 3
    assert told["skillbox_text_tools"].content == "grue-world\n"
    assert told["skillbox_svg_chart"].artifact.files_list == ["chart.svg"]
    assert state["messages"][-1].content == "done"
    offered = {tool["function"]["name"]: tool["function"] for tool in model.offered}
    assert offered["skillbox_invoice_total"]["parameters"]["required"] == ["currency", "lines"]
    assert "unit_price" in json.dumps(offered["skillbox_invoice_total"]["parameters"])
    assert "decimal arithmetic" in offered["skillbox_invoice_total"]["description"]
    assert "The schemas in the frontmatter" in offered["skillbox_invoice_total"]["description"]


def test_an_agent_reads_why_a_run_failed_and_goes_on(tools):
    wrong = {"currency": "EUR", "lines": [{"description": "x", "quantity": -1, "unit_price": "1"}]}
    model = ScriptedModel(script=[calls(("skillbox_invoice_total", wrong)), AIMessage(content="I see")])
    state = asyncio.run(create_react_agent(model, tools).ainvoke({"messages": [("user", "Add up.")]}))
    answer = next(message for message in state["messages"] if isinstance(message, ToolMessage))
    assert answer.status == "error"
    assert "/lines/0/quantity" in answer.content
    assert state["messages"][-1].content == "I see"


def test_a_tool_runs_by_itself_waiting_or_awaited(tools):
    counter = next(tool for tool in tools if tool.name == "skillbox_word_counter")
    assert json.loads(counter.invoke({"input": {"text": "a b"}}))["words"] == 2
    assert json.loads(asyncio.run(counter.ainvoke({"input": {"text": "a b c"}})))["words"] == 3


def test_the_toolkit_has_every_skill_of_the_server(live):
    names = {tool.name for tool in SkillboxToolkit(client=live).get_tools()}
    assert {"skillbox_word_counter", "skillbox_svg_chart", "skillbox_text_tools"} <= names


def test_a_rejected_skill_does_not_break_the_toolkit(tenant):
    for name in ("word-counter", "svg-chart"):
        published = tenant.register_skill(ROOT / "examples" / "skills" / name)
    tenant.reject_skill(published.name, published.version)
    tools = build_skillbox_toolkit(tenant.base_url, tenant.api_key, tenant_id=tenant.tenant_id)
    assert [tool.name for tool in tools] == ["skillbox_word_counter"]


def test_the_asynchronous_client_of_a_tool_has_the_settings_of_its_client():
    client = Client("http://h", "k", tenant_id="t", timeout=7.0, retries=1)
    own = SkillboxTool(client, SkillDetail(name="s", mode="cognitive"))._async_client()
    settings = (own.base_url, own.api_key, own.tenant_id, own.timeout, own.retries)
    assert settings == ("http://h", "k", "t", 7.0, 1)


def test_a_server_that_is_gone_is_told_to_the_model(live):
    tool = SkillboxTool(live, SkillDetail(name="no-such-skill", version="", entrypoint="main.py", mode="executable"))
    assert tool.invoke({"input": {}}).startswith("Error: ")


def test_a_skill_without_scripts_gives_its_instructions(live):
    tool = SkillboxTool(live, SkillDetail(name="advice", description="Advice.", mode="cognitive", instructions="Rest."))
    assert tool.invoke({}) == "Rest."
    assert asyncio.run(tool.ainvoke({})) == "Rest."
