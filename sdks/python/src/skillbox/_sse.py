"""Parses server-sent events into events of an execution. This module does no I/O."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Optional

from .models import Event, LogEvent, ResultEvent, RunResult, StateEvent

# The server sends data at least every 15 seconds. After this time without data, the connection counts as dead.
SILENCE_S = 45.0
# Maximum number of consecutive connections without an event.
MAX_FAILURES = 10
# Maximum size of one event. The largest is the result with its output and logs.
MAX_EVENT_BYTES = 64 << 20


@dataclass
class EventReader:
    """Position in an event stream. It outlives connections, so that a new one resumes after the last event."""

    last_id: str = ""
    pause_s: float = 1.0
    ended: bool = False
    failures: int = 0
    _buffer: bytearray = field(default_factory=bytearray)
    # How far `_buffer` has been searched for the end of an event.
    _searched: int = 0

    def reconnect(self) -> None:
        """Discards an incomplete event; the server sends it again."""
        self._buffer.clear()
        self._searched = 0

    def feed(self, data: bytes) -> Iterator[Event]:
        """Adds received data to the buffer and yields the complete events."""
        self._buffer += data
        while (end := self._buffer.find(b"\n\n", max(self._searched - 1, 0))) >= 0:
            block = self._buffer[:end].decode("utf-8", "replace")
            del self._buffer[: end + 2]
            self._searched = 0
            event = self._read(block)
            if event is not None:
                self.failures = 0
                self.ended = isinstance(event, ResultEvent)
                yield event
        self._searched = len(self._buffer)
        if self._searched > MAX_EVENT_BYTES:
            raise ValueError(f"an event has more than {MAX_EVENT_BYTES} bytes")

    def _read(self, block: str) -> Optional[Event]:
        kind, data, event_id = "", [], None
        for line in block.split("\n"):
            name, _, value = line.partition(":")
            value = value[1:] if value.startswith(" ") else value
            if name == "event":
                kind = value
            elif name == "data":
                data.append(value)
            elif name == "id":
                event_id = value
            elif name == "retry" and value.isdigit():
                self.pause_s = int(value) / 1000
        event = _event(kind, "\n".join(data), event_id or "")
        # Set after decoding: an event that could not be decoded must be sent again after a reconnect.
        self.last_id = self.last_id if event_id is None else event_id
        return event


def _event(kind: str, data: str, event_id: str) -> Optional[Event]:
    if kind == "state":
        return StateEvent.decode({**json.loads(data), "id": event_id})
    if kind == "log":
        return LogEvent.decode({**json.loads(data), "id": event_id})
    if kind == "result":
        return ResultEvent(RunResult.decode(json.loads(data)), event_id)
    # A comment, or an event type of a newer server.
    return None
