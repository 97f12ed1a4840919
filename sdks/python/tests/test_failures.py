"""Every method, on a server that fails, hangs up or says nothing, and with a wrong key: its error and request id."""

import asyncio
import inspect
import uuid

import pytest

import skillbox
from skillbox import _following

from .test_openapi import ROUTES, operation

# What the table of routes does not have: further ways to a route.
MORE = {
    "start": lambda c: c.start("s"),
    "wait": lambda c: c.wait("x"),
    "download_files": lambda c: c.download_files(skillbox.RunResult(files_url=f"{c.base_url}/a"), "/dev/shm/never"),
    "iter_skills": lambda c: c.iter_skills(),
    "iter_files": lambda c: c.iter_files(),
}
USES = {**ROUTES, **MORE}
# A URL of files carries its own permission.
WITHOUT_KEY = {route for route in ROUTES if "401" not in operation(route)["responses"]} | {"download_files"}

clients = pytest.mark.parametrize("kind", [skillbox.Client, skillbox.AsyncClient])


@pytest.fixture(autouse=True)
def no_second_try(monkeypatch):
    """A stream of events would be taken up again and again."""
    monkeypatch.setattr(_following, "MAX_FAILURES", 1)


def failure(client, use):
    """The error of a call."""

    async def finished():
        value = use(client)
        if hasattr(value, "__aiter__"):
            await value.__anext__()
        elif inspect.isawaitable(value):
            await value
        elif hasattr(value, "__next__"):
            next(value)

    with pytest.raises(skillbox.APIError) as raised:
        asyncio.run(finished())
    return raised.value


@clients
@pytest.mark.parametrize("name", USES)
def test_a_failure_of_the_server(name, kind, standin):
    error = failure(kind(f"{standin}/error", "k", retries=0), USES[name])
    assert type(error) is skillbox.ServerError
    assert (error.status_code, error.request_id) == (500, "made-by-the-stand-in")


@clients
@pytest.mark.parametrize("name", USES)
def test_a_dropped_connection(name, kind, standin):
    error = failure(kind(f"{standin}/drop", "k", retries=0), USES[name])
    assert type(error) is skillbox.ConnectionFailedError
    assert uuid.UUID(error.request_id)


@clients
@pytest.mark.parametrize("name", USES)
def test_a_server_that_says_nothing(name, kind, standin):
    error = failure(kind(f"{standin}/silent", "k", retries=0, timeout=0.05), USES[name])
    assert type(error) is skillbox.CallTimeoutError
    assert uuid.UUID(error.request_id)


@clients
@pytest.mark.parametrize("name", sorted(set(USES) - WITHOUT_KEY))
def test_a_wrong_key(name, kind, live):
    error = failure(kind(live.base_url, "sk-wrong", retries=0), USES[name])
    assert type(error) is skillbox.AuthenticationError
    assert (error.status_code, error.error_code) == (401, "unauthorized")
    assert uuid.UUID(error.request_id)


def test_no_method_is_left_out():
    used = set()

    class Names:
        base_url = ""

        def __getattr__(self, name):
            used.add(name)
            return lambda *given, **more: None

    for use in USES.values():
        use(Names())
    for kind in (skillbox.Client, skillbox.AsyncClient):
        methods = {name for name, _ in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}
        assert methods == used
