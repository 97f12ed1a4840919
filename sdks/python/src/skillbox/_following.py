"""Follows the events of an execution across lost connections.

The server stores the events, so none is lost or delivered twice.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from typing import Optional

from ._aio_http import AsyncSender
from ._call import Call, nothing, path_of
from ._endpoint import new_id
from ._failures import connection_lost
from ._http import Sender
from ._sse import MAX_FAILURES, SILENCE_S, EventReader
from .errors import APIError, CallTimeoutError, ConnectionFailedError, InvalidResponseError
from .models import Event


def follow(sender: Sender, execution_id: str, after: str, timeout_s: Optional[float]) -> Iterator[Event]:
    """Yields the events of an execution up to its result. Raises `CallTimeoutError` after `timeout_s` seconds."""
    reader, request_id = EventReader(last_id=after), new_id()
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    while not reader.ended:
        try:
            silence_s = _silence(deadline, execution_id, request_id)
            with sender._open(_events_call(execution_id, reader, silence_s), request_id) as stream:
                reader.reconnect()
                while not reader.ended:
                    stream.set_idle_timeout(_silence(deadline, execution_id, request_id))
                    data = stream.chunk()
                    if not data:
                        raise connection_lost("the stream of events", request_id, "it ended without a result")
                    yield from _events(reader, data, request_id)
        except APIError as error:
            time.sleep(_pause(reader, error, deadline, execution_id))


async def follow_async(
    sender: AsyncSender, execution_id: str, after: str, timeout_s: Optional[float]
) -> AsyncIterator[Event]:
    reader, request_id = EventReader(last_id=after), new_id()
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    while not reader.ended:
        try:
            silence_s = _silence(deadline, execution_id, request_id)
            async with sender._open(_events_call(execution_id, reader, silence_s), request_id) as stream:
                reader.reconnect()
                while not reader.ended:
                    stream.set_idle_timeout(_silence(deadline, execution_id, request_id))
                    data = await stream.chunk()
                    if not data:
                        raise connection_lost("the stream of events", request_id, "it ended without a result")
                    for event in _events(reader, data, request_id):
                        yield event
        except APIError as error:
            await asyncio.sleep(_pause(reader, error, deadline, execution_id))


def _events_call(execution_id: str, reader: EventReader, silence_s: float) -> Call[None]:
    headers = {"Accept": "text/event-stream"}
    if reader.last_id:
        headers["Last-Event-ID"] = reader.last_id
    path = path_of("v1", "executions", execution_id, "events")
    return Call("GET", path, nothing, headers=headers, long_running=True, silence_s=silence_s)


def _events(reader: EventReader, data: bytes, request_id: str) -> Iterator[Event]:
    try:
        yield from reader.feed(data)
    except (ValueError, TypeError) as cause:
        error = InvalidResponseError(200, "", f"an event of the stream cannot be read: {cause}")
        error.request_id = request_id
        raise error from cause


def _silence(deadline: Optional[float], execution_id: str, request_id: str) -> float:
    """Returns how many seconds the stream may stay silent from now."""
    if deadline is None:
        return SILENCE_S
    left = deadline - time.monotonic()
    if left <= 0:
        raise _timed_out(execution_id, request_id)
    return min(left, SILENCE_S)


def _pause(reader: EventReader, error: APIError, deadline: Optional[float], execution_id: str) -> float:
    """Returns the delay before reconnecting, in seconds; raises `error` if a retry is pointless."""
    if deadline is not None and time.monotonic() >= deadline:
        raise _timed_out(execution_id, error.request_id) from error
    reader.failures += 1
    passing = isinstance(error, ConnectionFailedError) or error.status_code == 429 or error.status_code >= 500
    if not passing or reader.failures >= MAX_FAILURES:
        raise error
    pause = reader.pause_s if error.retry_after is None else error.retry_after
    return pause if deadline is None else min(pause, max(deadline - time.monotonic(), 0.0))


def _timed_out(execution_id: str, request_id: str) -> CallTimeoutError:
    error = CallTimeoutError(0, "", f"execution {execution_id} has not ended in the time given to wait for it")
    error.request_id = request_id
    return error
