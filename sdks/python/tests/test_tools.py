"""Skills as tools: names, schemas, and calls in every format."""

import asyncio
import json
import re

import pytest

from skillbox import (
    AsyncClient,
    Client,
    NotFoundError,
    Skill,
    SkillDetail,
    handle_tool_call,
    handle_tool_call_async,
    to_anthropic_tools,
    to_anthropic_tools_async,
    to_openai_tools,
    to_openai_tools_async,
)
from skillbox._binding import bind
from skillbox.models import Script
from skillbox.tools import load_skills, load_skills_async

from .conftest import ROOT


def skill(name="s", **more):
    return SkillDetail(**{"name": name, "version": "1.0.0", "entrypoint": "main.py", "mode": "executable", **more})


@pytest.fixture(scope="module")
def skills(live):
    return load_skills(live, ["word-counter", "svg-chart", "text-tools", "invoice-total"])


def openai_call(name, arguments):
    return {"id": "call_1", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def anthropic_call(name, arguments):
    return {"type": "tool_use", "id": "toolu_1", "name": name, "input": arguments}


def test_names_are_what_model_apis_take_and_never_the_same():
    names = ["data-analysis", "data_analysis", "a.b", "x" * 128, "x" * 127 + "y", "plain"]
    bound = {binding.skill.name: binding.name for binding in bind(skill(name) for name in names)}
    assert len(set(bound.values())) == len(names)
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in bound.values())
    assert bound["plain"] == "skillbox_plain"
    assert bound["a.b"] == "skillbox_a_b"
    assert bound == {binding.skill.name: binding.name for binding in bind(skill(name) for name in reversed(names))}


def test_a_lone_name_is_not_decorated():
    assert bind([skill("data-analysis")])[0].name == "skillbox_data_analysis"


def test_the_schema_is_the_skills_own():
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    binding = bind([skill(input_schema=schema)])[0]
    assert binding.schema == schema
    assert binding.run_arguments({"n": 1}) == {"skill": "s", "version": "1.0.0", "input": {"n": 1}}


def test_an_input_that_is_no_object_is_wrapped():
    binding = bind([skill(input_schema={"type": "array", "items": {"type": "number"}})])[0]
    assert binding.schema["properties"]["input"] == {"type": "array", "items": {"type": "number"}}
    assert binding.schema["required"] == ["input"]
    assert binding.run_arguments({"input": [1]})["input"] == [1]
    referring = {"type": "array", "items": {"$ref": "#/$defs/x"}, "$defs": {"x": {}}}
    assert "$ref" not in json.dumps(bind([skill(input_schema=referring)])[0].schema)


def test_a_skill_without_entrypoint_offers_its_scripts():
    binding = bind([skill(entrypoint="", scripts=[Script("a.py"), Script("b.sh")])])[0]
    assert binding.schema["properties"]["script"]["enum"] == ["a.py", "b.sh"]
    sent = binding.run_arguments({"script": "a.py", "args": ["-x"], "stdin": "hi", "env": {"no": "way"}})
    assert sent == {"skill": "s", "version": "1.0.0", "script": "a.py", "args": ["-x"], "stdin": "hi"}


def test_a_description_is_cut_where_it_must_be():
    tools = to_openai_tools([skill(description="d", instructions="i" * 5000)])
    assert len(tools[0]["function"]["description"]) == 1024
    assert len(to_anthropic_tools([skill(description="d", instructions="i" * 5000)])[0]["description"]) == 5003


def test_the_formats_are_the_published_ones(live, skills):
    openai = {tool["function"]["name"]: tool for tool in to_openai_tools(skills)}
    assert set(openai["skillbox_invoice_total"]) == {"type", "function"}
    assert openai["skillbox_invoice_total"]["function"]["parameters"]["required"] == ["currency", "lines"]
    anthropic = {tool["name"]: tool for tool in to_anthropic_tools(live)}
    assert set(anthropic["skillbox_text_tools"]) == {"name", "description", "input_schema"}
    assert "There is no default entrypoint" in anthropic["skillbox_text_tools"]["description"]


def test_a_call_of_openai_is_answered_as_openai_wants_it(live, skills):
    call = openai_call("skillbox_word_counter", {"input": {"text": "one two two"}})
    message = handle_tool_call(live, call, skills=skills)
    assert (message["role"], message["tool_call_id"]) == ("tool", "call_1")
    assert json.loads(message["content"])["words"] == 3


def test_a_call_of_the_responses_api_is_answered_in_kind(live, skills):
    call = {"type": "function_call", "call_id": "c", "name": "skillbox_word_counter", "arguments": "{}"}
    message = handle_tool_call(live, call, skills=skills)
    assert (message["type"], message["call_id"]) == ("function_call_output", "c")


def test_a_call_of_anthropic_is_answered_as_anthropic_wants_it(live):
    lines = [{"description": "x", "quantity": 2, "unit_price": "1.50"}]
    message = handle_tool_call(live, anthropic_call("skillbox_invoice_total", {"currency": "EUR", "lines": lines}))
    assert (message["type"], message["tool_use_id"], message["is_error"]) == ("tool_result", "toolu_1", False)
    assert json.loads(message["content"])["total"] == "3.00"


def test_scripts_and_files_are_told(live, skills):
    call = anthropic_call("skillbox_text_tools", {"script": "scripts/slug.py", "stdin": "Hello, World!"})
    assert handle_tool_call(live, call, skills=skills)["content"] == "hello-world\n"
    told = handle_tool_call(live, anthropic_call("skillbox_svg_chart", {}), skills=skills)["content"]
    assert told.endswith("\nFiles: chart.svg")


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (anthropic_call("skillbox_invoice_total", {"currency": "nonsense", "lines": []}), "/currency"),
        (anthropic_call("skillbox_no_such", {}), "no tool skillbox_no_such"),
        (anthropic_call("skillbox_word_counter", "{not json"), "not a JSON object"),
        (anthropic_call("skillbox_text_tools", {"script": "scripts/template.js", "stdin": "{{a}}"}), "no value for a"),
    ],
)
def test_what_goes_wrong_is_told_to_the_model(call, says, live, skills):
    message = handle_tool_call(live, call, skills=skills)
    assert message["is_error"]
    assert says in message["content"]


def test_objects_of_their_packages_work_too(live, skills):
    class Block:
        def model_dump(self):
            return anthropic_call("skillbox_word_counter", {"input": {"text": "a"}})

    assert json.loads(handle_tool_call(live, Block(), skills=skills)["content"])["words"] == 1
    with pytest.raises(ValueError, match="neither"):
        handle_tool_call(live, {"type": "text"})


def test_instructions_are_the_answer_of_a_skill_that_runs_nothing(live):
    only_words = skill("advice", mode="cognitive", entrypoint="", instructions="Be kind.")
    message = handle_tool_call(live, anthropic_call("skillbox_advice", {}), skills=[only_words])
    assert (message["content"], message["is_error"]) == ("Be kind.", False)


@pytest.fixture
def reviewed(tenant):
    """A tenant whose reviewer let one skill run and rejected another."""
    for name in ("word-counter", "svg-chart"):
        published = tenant.register_skill(ROOT / "examples" / "skills" / name)
    tenant.reject_skill(published.name, published.version)
    assert {skill.status for skill in tenant.list_skills()} == {"available", "rejected"}
    return tenant


def test_a_skill_that_may_not_run_is_no_tool(reviewed):
    assert [tool["function"]["name"] for tool in to_openai_tools(reviewed)] == ["skillbox_word_counter"]
    message = handle_tool_call(reviewed, openai_call("skillbox_word_counter", {"input": {"text": "one two"}}))
    assert json.loads(message["content"])["words"] == 2
    message = handle_tool_call(reviewed, openai_call("skillbox_svg_chart", {}))
    assert "no tool" in message["content"]


def test_a_skill_that_may_not_run_is_no_tool_awaited(reviewed):
    client = AsyncClient(reviewed.base_url, reviewed.api_key, tenant_id=reviewed.tenant_id)
    call = openai_call("skillbox_word_counter", {"input": {"text": "one two"}})
    message = asyncio.run(handle_tool_call_async(client, call))
    assert json.loads(message["content"])["words"] == 2
    assert [tool["name"] for tool in asyncio.run(to_anthropic_tools_async(client))] == ["skillbox_word_counter"]
    assert len(asyncio.run(to_openai_tools_async(client))) == 1


def test_a_skill_that_goes_while_tools_are_made_is_no_tool(reviewed):
    gone = Skill(name="gone", version="1.0.0", status="available")

    class Late(Client):
        def list_skills(self):
            return [gone, *super().list_skills()]

    class AsyncLate(AsyncClient):
        async def list_skills(self):
            return [gone, *await super().list_skills()]

    settings = (reviewed.base_url, reviewed.api_key)
    late, async_late = (kind(*settings, tenant_id=reviewed.tenant_id) for kind in (Late, AsyncLate))
    assert [skill.name for skill in load_skills(late)] == ["word-counter"]
    assert [skill.name for skill in asyncio.run(load_skills_async(async_late))] == ["word-counter"]
    with pytest.raises(NotFoundError):
        load_skills(late, ["gone"])


def test_an_asynchronous_client_is_sent_to_the_awaited_functions(live_async):
    with pytest.raises(TypeError, match="to_openai_tools_async"):
        to_openai_tools(live_async)
    with pytest.raises(TypeError, match="to_anthropic_tools_async"):
        to_anthropic_tools(live_async)


def test_the_same_awaited(live_async, skills):
    call = openai_call("skillbox_word_counter", {"input": {"text": "one"}})
    message = asyncio.run(handle_tool_call_async(live_async, call))
    assert json.loads(message["content"])["words"] == 1
    message = asyncio.run(handle_tool_call_async(live_async, openai_call("nothing", {}), skills=skills))
    assert "no tool" in message["content"]
