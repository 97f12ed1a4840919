"""Streams of events whose server says nothing at all."""

import asyncio

import pytest

import skillbox
from skillbox import CallTimeoutError, _following


@pytest.fixture
def silent(standin, monkeypatch):
    """A server that accepts connections and never answers; the first silence is the last."""
    monkeypatch.setattr(_following, "SILENCE_S", 0.05)
    monkeypatch.setattr(_following, "MAX_FAILURES", 1)
    return f"{standin}/silent"


def test_a_stream_without_an_answer_is_given_up(silent):
    with pytest.raises(CallTimeoutError):
        next(skillbox.Client(silent).events("x"))


def test_a_stream_without_an_answer_is_given_up_awaited(silent):
    async def first():
        return await skillbox.AsyncClient(silent).events("x").__anext__()

    with pytest.raises(CallTimeoutError):
        asyncio.run(first())


def test_the_silence_of_a_stream_is_not_the_timeout_of_the_client(silent):
    with pytest.raises(CallTimeoutError):
        next(skillbox.Client(silent, timeout=3600).events("x"))
