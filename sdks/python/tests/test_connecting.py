"""A server that cannot be connected to in time: nothing was sent, so every call may be sent again."""

import asyncio
import http.client
import socket

import pytest

import skillbox
from skillbox import CallTimeoutError


def test_a_connection_that_is_not_made_in_time_is_a_timeout(monkeypatch):
    attempts = []

    def connect(connection):
        attempts.append(connection)
        raise socket.timeout("timed out")

    monkeypatch.setattr(http.client.HTTPConnection, "connect", connect)
    with pytest.raises(CallTimeoutError, match="cannot connect") as late:
        skillbox.Client("http://127.0.0.1:1", retries=1).cancel("x")
    assert late.value.request_id
    assert len(attempts) == 2


def test_a_connection_that_is_not_made_in_time_is_a_timeout_awaited(monkeypatch):
    attempts = []

    async def open_connection(*where, **how):
        attempts.append(where)
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio, "open_connection", open_connection)
    client = skillbox.AsyncClient("http://127.0.0.1:1", retries=1, timeout=0.01)
    with pytest.raises(CallTimeoutError, match="cannot connect") as late:
        asyncio.run(client.cancel("x"))
    assert late.value.request_id
    assert len(attempts) == 2
