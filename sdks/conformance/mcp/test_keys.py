"""What a key may do through MCP is what it may do through the API."""

import json
import re
import uuid
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
import skillbox

from support import server
from support.clients import ClientError, text_of
from support.skills import write_skill


def test_a_wrong_key_is_refused(connect, served):
    wrong = served.with_key("sk-wrong-0123456789abcdef")
    if served.name == "http":
        with pytest.raises(ClientError) as error:
            connect(wrong)
        assert error.value.status == 401
    else:
        refused = connect(wrong).call("list_skills")
        assert refused["isError"]
        assert "SKILLBOX_API_KEY" in text_of(refused)


def test_a_key_that_may_not_execute_reads_and_runs_nothing(connect, served):
    reader = connect(served.with_key(served.tenant.make_key("reader", ["read"])))
    assert reader.call("load_skill", skill="adder")["structuredContent"]["name"] == "adder"
    refused = reader.call("run_skill_script", skill="adder", input={"a": 1, "b": 2})
    assert refused["isError"]
    assert "execute" in text_of(refused)


def test_a_key_for_some_skills_sees_no_others(connect, served):
    limited = connect(
        served.with_key(served.tenant.make_key("limited", ["read", "execute"], skills=["adder"]), "--skill-tools")
    )
    assert names(limited) == ["adder"]
    assert "skillbox_workbench" not in {tool["name"] for tool in limited.do("list_tools")["tools"]}
    assert [entry["uri"] for entry in limited.do("request", method="skills/list", params={})["skills"]] == [
        "skill://adder/SKILL.md"
    ]
    assert limited.call("run_skill_script", skill="adder", input={"a": 1, "b": 2})["structuredContent"]["output"] == {
        "sum": 3
    }
    # The API says of a key's own limit that it is one.
    nothing_of(limited, "workbench", "no skill `workbench`|may not use this skill")


def test_another_tenants_skills_do_not_exist(connect, served, other_tenant):
    assert names(connect(served.with_key(other_tenant.key))) == ["secret"]
    opened = connect(served.how())
    assert "secret" not in names(opened)
    nothing_of(opened, "secret", "no skill `secret`")


def test_a_skill_that_was_rejected_is_not_offered(connect, served, tmp_path):
    tenant = server.Tenant(f"mcp-{uuid.uuid4().hex[:8]}")
    tenant.publish(write_skill(tmp_path, "fine"), write_skill(tmp_path, "rejected"))
    reviewer = skillbox.Client(server.URL, server.ADMIN_KEY, tenant_id=tenant.name)
    reviewer.reject_skill("rejected", tenant.api.get_skill("rejected").version)
    opened = connect(served.with_key(tenant.key, "--skill-tools"))
    assert names(opened) == ["fine"]
    assert "skillbox_rejected" not in {tool["name"] for tool in opened.do("list_tools")["tools"]}
    for method, key in (("resources/list", "resources"), ("skills/list", "skills")):
        listed = opened.do("request", method=method, params={})[key]
        assert [entry["uri"] for entry in listed] == ["skill://fine/SKILL.md"], method
    assert opened.call("run_skill_script", skill="rejected")["isError"]


def names(connection):
    return [skill["name"] for skill in connection.call("list_skills")["structuredContent"]["skills"]]


def nothing_of(connection, skill, told):
    """No way leads to the skill, and none says that there is one."""
    for call in (
        {"name": "load_skill", "arguments": {"skill": skill}},
        {"name": "read_skill_resource", "arguments": {"skill": skill, "path": "SKILL.md"}},
        {"name": "run_skill_script", "arguments": {"skill": skill}},
    ):
        refused = connection.do("call_tool", **call)
        assert refused["isError"]
        assert re.search(told, text_of(refused)), text_of(refused)
    uri = f"skill://{skill}/SKILL.md"
    with pytest.raises(ClientError):
        connection.do("read_resource", uri=uri)
    with pytest.raises(ClientError):
        connection.do("request", method="skills/get", params={"uri": uri})


def test_http_says_401_in_our_own_words(tenant):
    for headers in ({}, {"Authorization": "Bearer sk-wrong-0123456789abcdef"}):
        status, answer, _ = post(initialize(), headers)
        assert (status, json.loads(answer)["error"]) == (401, "unauthorized")


def test_a_session_belongs_to_the_key_that_began_it(tenant):
    mine, stranger = ({"Authorization": f"Bearer {tenant.make_key(name, ['read'])}"} for name in ("mine", "stranger"))
    status, _, headers = post(initialize(), mine)
    session = {"Mcp-Session-Id": headers["Mcp-Session-Id"], "MCP-Protocol-Version": "2025-11-25"}
    assert status == 200
    listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    assert post(listing, {**mine, **session})[0] == 200
    assert post(listing, {**stranger, **session})[0] == 404


def test_a_page_from_elsewhere_is_refused(tenant):
    key = {"Authorization": f"Bearer {tenant.key}"}
    assert post(initialize(), {**key, "Origin": "https://evil.example"})[0] == 403
    assert post(initialize(), {**key, "Host": "evil.example"})[0] == 403
    assert post(initialize(), {**key, "Origin": "http://localhost:3000"})[0] == 200


def test_what_is_no_message_is_refused(tenant):
    key = {"Authorization": f"Bearer {tenant.key}"}
    for body in (b"{", b"[]", b"\xff", b"7"):
        status, answer, _ = post(body, key)
        assert status == 400, body
        assert "error" in json.loads(answer)


def initialize():
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
    return {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}


def post(message, headers):
    """A request by hand: status, body and headers of its answer."""
    every = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", **headers}
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    request = Request(f"{server.URL}/mcp", body, every)
    try:
        with urlopen(request, timeout=10) as answer:
            return answer.status, answer.read(), answer.headers
    except HTTPError as error:
        return error.code, error.read(), error.headers
