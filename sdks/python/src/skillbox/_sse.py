"""Server-sent events: bytes in, events of an execution out. Nothing here touches the network."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Optional

from .models import Event, LogEvent, ResultEvent, RunResult, StateEvent

# The server says something at least every 15 seconds; a silence of this length is a dead connection.
SILENCE_S = 45.0
# Connections in a row that brought nothing before we give up.
MAX_FAILURES = 10
# What one event may hold: the result with its output and logs.
MAX_EVENT_BYTES = 64 << 20


@dataclass
class EventReader:
    """Where the reader of a stream is. It outlives connections, so that a broken one is taken up where it broke."""

    last_id: str = ""
    pause_s: float = 1.0
    ended: bool = False
    failures: int = 0
    _held: bytearray = field(default_factory=bytearray)
    # How far `_held` has been searched for the end of an event.
    _searched: int = 0

    def reconnect(self) -> None:
        """Forgets half an event; the server sends it again."""
        self._held.clear()
        self._searched = 0

    def feed(self, data: bytes) -> Iterator[Event]:
        """Takes what arrived and gives the events that are whole."""
        self._held += data
        while (end := self._held.find(b"\n\n", max(self._searched - 1, 0))) >= 0:
            block = self._held[:end].decode("utf-8", "replace")
            del self._held[: end + 2]
            self._searched = 0
            event = self._read(block)
            if event is not None:
                self.failures = 0
                self.ended = isinstance(event, ResultEvent)
                yield event
        self._searched = len(self._held)
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
        # Only now: an event that cannot be read has not been seen.
        self.last_id = self.last_id if event_id is None else event_id
        return event


def _event(kind: str, data: str, event_id: str) -> Optional[Event]:
    if kind == "state":
        return StateEvent.decode({**json.loads(data), "id": event_id})
    if kind == "log":
        return LogEvent.decode({**json.loads(data), "id": event_id})
    if kind == "result":
        return ResultEvent(RunResult.decode(json.loads(data)), event_id)
    # A comment, or a kind that a newer server has.
    return None
