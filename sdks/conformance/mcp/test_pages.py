"""More skills than fit on a page."""

import uuid

import pytest

from conftest import Transport
from support.server import Tenant
from support.skills import write_skill

COUNT = 55
NAMES = [f"skill-{number:02}" for number in range(COUNT)]


@pytest.fixture(scope="session")
def many(tmp_path_factory):
    """A tenant with many skills."""
    directory = tmp_path_factory.mktemp("many")
    tenant = Tenant(f"mcp-{uuid.uuid4().hex[:8]}")
    tenant.publish(*(write_skill(directory, name) for name in NAMES))
    return tenant


def walked(fetch):
    """The items of all pages; `fetch` gives those of one, and where the next begins."""
    found, cursor, pages = [], None, 0
    while pages == 0 or cursor:
        items, cursor = fetch({"cursor": cursor} if cursor else {})
        found += items
        pages += 1
    return found, pages


@pytest.mark.parametrize("client", ["python_1", "typescript_2"], indirect=True)
def test_every_skill_is_on_one_page(connect, served, many):
    opened = connect(Transport(served.name, many).how(skill_tools=True))

    def of_tool(cursor):
        page = opened.call("list_skills", **cursor)["structuredContent"]
        return [skill["name"] for skill in page["skills"]], page["next_cursor"]

    def of_method(method, key):
        def fetch(cursor):
            page = opened.do("request", method=method, params=cursor)
            return [entry["uri"] for entry in page[key]], page.get("nextCursor")

        return fetch

    assert walked(of_tool) == (NAMES, 2)
    uris = [f"skill://{name}/SKILL.md" for name in NAMES]
    assert walked(of_method("resources/list", "resources")) == (uris, 2)
    assert walked(of_method("skills/list", "skills")) == (uris, 2)
    tools = [tool["name"] for tool in opened.do("list_tools")["tools"]]
    assert [name for name in tools if name.startswith("skillbox_")] == [f"skillbox_{name}" for name in NAMES]
