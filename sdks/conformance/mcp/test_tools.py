"""The handshake, and the tools that find and read skills."""

import base64
import json
import subprocess

import pytest

from conftest import CLIENTS
from support.clients import text_of
from support.server import BINARY
from support.skills import files_of

ADDER_SCHEMA = {
    "type": "object",
    "required": ["a", "b"],
    "additionalProperties": False,
    "properties": {"a": {"type": "integer", "description": "The first number."}, "b": {"type": "integer"}},
}
GENERAL = ["list_skills", "load_skill", "read_skill_resource", "run_skill_script"]


def test_the_newest_common_version_is_spoken(client, connection):
    about = connection.about
    assert about["protocol"] == CLIENTS[client.name]
    assert about["serverInfo"]["name"] == "skillbox"
    version = subprocess.run([BINARY, "version"], capture_output=True, text=True, check=True).stdout
    assert about["serverInfo"]["version"] in version
    assert {"tools", "resources", "extensions"} <= about["capabilities"].keys()
    assert "io.modelcontextprotocol/skills" in about["capabilities"]["extensions"]
    assert "list_skills" in about["instructions"]


def test_the_tools_have_schemas(connection):
    tools = {tool["name"]: tool for tool in connection.do("list_tools")["tools"]}
    assert sorted(tools) == GENERAL
    assert tools["load_skill"]["inputSchema"]["required"] == ["skill"]
    assert tools["read_skill_resource"]["inputSchema"]["required"] == ["skill", "path"]
    running = tools["run_skill_script"]["inputSchema"]
    assert running["required"] == ["skill"]
    assert {"script", "args", "stdin", "input", "env", "timeout", "version"} <= running["properties"].keys()
    assert running["properties"]["args"]["items"] == {"type": "string"}
    assert all(tool["description"] for tool in tools.values())
    reading = {name: tools[name]["annotations"]["readOnlyHint"] for name in GENERAL}
    assert reading == {**dict.fromkeys(GENERAL, True), "run_skill_script": False}


def test_skills_are_tools_when_asked_for(connect, transport):
    opened = connect(transport.how(skill_tools=True))
    tools = {tool["name"]: tool for tool in opened.do("list_tools")["tools"]}
    assert sorted(tools) == sorted([*GENERAL, "skillbox_adder", "skillbox_workbench"])
    assert tools["skillbox_adder"]["inputSchema"] == ADDER_SCHEMA
    assert tools["skillbox_adder"]["description"] == "Adds two whole numbers."
    assert tools["skillbox_workbench"]["inputSchema"]["type"] == "object"
    sum_of = opened.call("skillbox_adder", a=40, b=2)
    assert sum_of["structuredContent"]["output"] == {"sum": 42}
    wrong = opened.call("skillbox_adder", a="forty", b=2)
    assert wrong["isError"]
    assert "/a" in text_of(wrong)


def test_skills_are_no_tools_when_not_asked_for(connection):
    with_error = connection.call("skillbox_adder", a=40, b=2)
    assert with_error["isError"]
    assert "skillbox_adder" in text_of(with_error)


def test_skills_are_listed(connection):
    listed = connection.call("list_skills")
    skills = listed["structuredContent"]["skills"]
    assert [(skill["name"], skill["version"], skill["runnable"]) for skill in skills] == [
        ("adder", "1.2.0", True),
        ("workbench", "1.0.0", True),
    ]
    assert "Grüße, 世界, 🦀" in skills[1]["description"]
    assert "Grüße, 世界, 🦀" in text_of(listed)


def test_a_skill_is_loaded(connection, tenant):
    loaded = connection.call("load_skill", skill="workbench")
    skill = loaded["structuredContent"]
    assert "words in three scripts" in skill["instructions"]
    assert "words in three scripts" in text_of(loaded)
    sizes = {file["path"]: file["size_bytes"] for file in skill["files"]}
    assert sizes == {path: len(data) for path, data in files_of("workbench").items()}
    uris = {file["path"]: file["uri"] for file in skill["files"]}
    assert uris["references/Grüße 世界.md"] == "skill://workbench/references/Gr%C3%BC%C3%9Fe%20%E4%B8%96%E7%95%8C.md"
    assert {"path": "scripts/tell.py", "lang": "python"} in skill["scripts"]
    assert skill["entrypoint"] == "scripts/echo.py"
    assert skill["digest"] == tenant.api.get_skill("workbench").digest


def test_the_input_schema_comes_with_the_skill(connection):
    assert connection.call("load_skill", skill="adder")["structuredContent"]["input_schema"] == ADDER_SCHEMA


def test_files_are_read(connection):
    text = connection.call("read_skill_resource", skill="workbench", path="references/Grüße 世界.md")
    assert text_of(text) == files_of("workbench")["references/Grüße 世界.md"].decode()
    (picture,) = connection.call("read_skill_resource", skill="workbench", path="assets/pixel.png")["content"]
    assert picture["resource"]["mimeType"] == "image/png"
    assert base64.b64decode(picture["resource"]["blob"]) == files_of("workbench")["assets/pixel.png"]


@pytest.mark.parametrize("path", ["missing.md", "../adder/main.py", "/etc/passwd", ""])
def test_only_files_of_the_skill_are_read(connection, path):
    refused = connection.call("read_skill_resource", skill="workbench", path=path)
    assert refused["isError"]
    assert f"no file `{path}`" in text_of(refused)


def test_what_a_model_gets_wrong_is_told_to_it(connection):
    unknown = connection.call("load_skill", skill="wörkbench")
    assert unknown["isError"]
    assert "no skill `wörkbench`" in text_of(unknown)
    misspelled = connection.call("run_skill_script", skill="workbench", script="scripts/tell.py", arguments=["a"])
    assert misspelled["isError"]
    assert "arguments" in text_of(misspelled)
    missing = connection.call("load_skill")
    assert missing["isError"]
    assert "skill" in text_of(missing)


def test_answers_are_json_whatever_is_in_them(connection):
    document = {"text": 'Grüße, 世界, 🦀, \u2028 and "quotes"', "n": [1, 2.5, None, True], "big": 2**53 - 1}
    result = connection.call("run_skill_script", skill="workbench", input=document, env={"GREETING": "høy"})
    assert result["structuredContent"]["output"] == {"input": document, "greeting": "høy"}
    assert json.loads(text_of(result)) == {"input": document, "greeting": "høy"}
