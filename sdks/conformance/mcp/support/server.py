"""The live server: its skills, its keys, and how each transport reaches it."""

from __future__ import annotations

import os

import skillbox

from .skills import SKILLS

URL = os.environ["SKILLBOX_TEST_URL"]
ADMIN_KEY = os.environ["SKILLBOX_TEST_KEY"]
BINARY = os.environ["SKILLBOX_TEST_BINARY"]


class Tenant:
    """A tenant of its own for these tests, with the skills of this directory."""

    def __init__(self, name):
        skillbox.Client(URL, ADMIN_KEY).create_tenant(name)
        self.name = name
        self.key = self.make_key("all", ["read", "publish", "execute"])
        self.api = skillbox.Client(URL, self.key)

    def publish(self, *directories):
        for directory in directories:
            self.api.register_skill(directory)

    def make_key(self, name, scopes, **more):
        return skillbox.Client(URL, ADMIN_KEY, tenant_id=self.name).create_key(name=name, scopes=scopes, **more).key


def here(directory=SKILLS, *options):
    """`skillbox mcp` with a directory of this machine."""
    return {"command": BINARY, "args": ["mcp", str(directory), *options], "env": _environment()}


def remote(key, *options):
    """`skillbox mcp` with a server and a key."""
    env = {**_environment(), "SKILLBOX_SERVER_URL": URL, "SKILLBOX_API_KEY": key}
    return {"command": BINARY, "args": ["mcp", *options], "env": env}


def http(key, query=""):
    """The server itself."""
    return {"url": f"{URL}/mcp{query}", "headers": {"Authorization": f"Bearer {key}"}}


def _environment():
    return {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
