"""Every client on every transport: what the tests ask for."""

from __future__ import annotations

import uuid

import pytest

from support import server
from support.clients import Remote, command_of
from support.skills import SKILLS, write_skill

#: The clients, and the newest version of the protocol that each speaks.
CLIENTS = {
    "python_1": "2025-11-25",
    "python_2": "2026-07-28",
    "typescript_1": "2025-11-25",
    "typescript_2": "2026-07-28",
}


class Transport:
    """A way to the skills of a tenant."""

    def __init__(self, name, tenant, directory=SKILLS):
        self.name, self.tenant, self.directory = name, tenant, directory
        #: Whether runs are executions of a server.
        self.is_served = name != "here"

    def how(self, *, skill_tools=False):
        options = ["--skill-tools"] if skill_tools else []
        if self.name == "here":
            return server.here(self.directory, *options)
        return self.with_key(self.tenant.key, *options)

    def with_key(self, key, *options):
        if self.name == "remote":
            return server.remote(key, *options)
        return server.http(key, "?tools=skills" if options else "")


@pytest.fixture(scope="session")
def tenant():
    made = server.Tenant(f"mcp-{uuid.uuid4().hex[:8]}")
    made.publish(*sorted(SKILLS.iterdir()))
    return made


@pytest.fixture(scope="session")
def other_tenant(tmp_path_factory):
    made = server.Tenant(f"mcp-{uuid.uuid4().hex[:8]}")
    made.publish(write_skill(tmp_path_factory.mktemp("secret"), "secret"))
    return made


@pytest.fixture(scope="session", params=CLIENTS)
def client(request, tmp_path_factory):
    """An official client."""
    started = Remote(command_of(request.param), tmp_path_factory.mktemp("client") / "stderr")
    started.name = request.param
    yield started
    started.end()


@pytest.fixture(scope="session", params=["here", "remote", "http"])
def transport(request, tenant):
    return Transport(request.param, tenant)


@pytest.fixture(scope="session", params=["remote", "http"])
def served(request, tenant):
    """A transport with keys."""
    return Transport(request.param, tenant)


@pytest.fixture(scope="session")
def connection(client, transport):
    """A connection of the client, shared by the tests that change nothing about it."""
    opened = client.connect(transport.how())
    yield opened
    opened.close()


@pytest.fixture
def connect(client):
    """Opens connections that are closed again."""
    opened = []

    def open_one(how):
        opened.append(client.connect(how))
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()
