"""An API call as a plain value: the request, the decoder of the response, and whether the call is idempotent.

Both clients send these values, so they differ only in blocking or awaiting. This module does no I/O.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Callable, Generic, Optional, Protocol, TypeVar
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from . import errors
from ._decode import M

T = TypeVar("T")

# The body of an error response is short; a longer one does not come from Skillbox.
MAX_ERROR_BODY_BYTES = 64 * 1024


class Body(Protocol):
    """A request body. It can be read repeatedly, once for each attempt."""

    @property
    def content_type(self) -> str: ...
    @property
    def length(self) -> int: ...
    def chunks(self) -> Iterator[bytes]: ...


@dataclass(frozen=True)
class BytesBody:
    data: bytes
    content_type: str

    @property
    def length(self) -> int:
        return len(self.data)

    def chunks(self) -> Iterator[bytes]:
        yield self.data


def json_body(document: Any) -> BytesBody:
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return BytesBody(text.encode("utf-8"), "application/json")


@dataclass(frozen=True)
class Answer:
    """A successful response; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Call(Generic[T]):
    method: str
    path: str
    read: Callable[[Answer], T]
    query: Sequence[tuple[str, str]] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Optional[Body] = None
    # Idempotent, so the call is retried after a lost connection.
    repeatable: bool = False
    # Runs, uploads and downloads have no default timeout.
    long_running: bool = False
    # Seconds without data after which the connection counts as dead, from the first byte on.
    silence_s: Optional[float] = None
    # A URL that carries its own permission: no key is sent along.
    anonymous: bool = False
    # Statuses that are answers rather than errors, beside 2xx.
    answers: tuple[int, ...] = ()

    @property
    def target(self) -> str:
        return f"{self.path}?{urlencode(self.query)}" if self.query else self.path


def path_of(*segments: str) -> str:
    """The path of a route. Every segment is encoded, so that a name cannot reach another route."""
    for segment in segments:
        if segment in ("", ".", ".."):
            raise ValueError(f"{segment!r} cannot be part of a URL")
    return "/" + "/".join(quote(segment, safe="") for segment in segments)


def get(read: Callable[[Answer], T], *segments: str, query: Sequence[tuple[str, str]] = ()) -> Call[T]:
    """Creates a read-only call."""
    return Call("GET", path_of(*segments), read, query=query, repeatable=True)


def document(model: type[M]) -> Callable[[Answer], M]:
    """Returns a decoder of one document."""
    return lambda answer: model.decode(answer.json())


def rows(model: type[M]) -> Callable[[Answer], list[M]]:
    """Returns a decoder of a list without pagination."""
    return lambda answer: [model.decode(row) for row in answer.json()]


@dataclass(frozen=True)
class Page(Generic[T]):
    items: list[T]
    # Cursor of the next page; empty on the last page.
    cursor: str


def page(model: type[M]) -> Callable[[Answer], Page[M]]:
    """Returns a decoder of one page of a list."""
    read = rows(model)
    return lambda answer: Page(read(answer), next_cursor(answer.headers.get("link", "")))


def text(answer: Answer) -> str:
    return answer.body.decode("utf-8", "replace")


def nothing(answer: Answer) -> None:
    return None


def query_of(**values: Any) -> list[tuple[str, str]]:
    """Returns the query of a call, without empty values."""
    return [(name, str(value)) for name, value in values.items() if value not in (None, "")]


def next_cursor(link: str) -> str:
    """Returns the cursor of the ``rel="next"`` target in a ``Link`` header."""
    for part in link.split(","):
        target, _, parameters = part.partition(">")
        if 'rel="next"' in parameters or "rel=next" in parameters:
            query = parse_qs(urlsplit(target.strip().lstrip("<")).query)
            return query.get("cursor", [""])[0]
    return ""


def read_answer(call: Call[T], answer: Answer, request_id: str) -> T:
    """Decodes a successful response. If that fails, the server is probably not Skillbox."""
    try:
        return call.read(answer)
    except (ValueError, TypeError, KeyError, AttributeError) as cause:
        message = (
            f"the answer to {call.method} {call.path} is not one this client understands; is this a Skillbox server?"
        )
        error = errors.InvalidResponseError(answer.status, "", message)
        error.request_id = answer.headers.get("x-request-id", request_id)
        raise error from cause


def error_from_response(status: int, headers: Mapping[str, str], body: bytes, request_id: str) -> errors.APIError:
    """Decodes an error response. A foreign body, such as the page of a proxy, still gives a readable message."""
    slug, message, details = "", f"the server answered with HTTP {status} and no Skillbox error", None
    try:
        parsed = json.loads(body)
        slug, message, details = str(parsed["error"]), str(parsed.get("message", "")), parsed.get("details")
    except (ValueError, TypeError, KeyError, AttributeError):
        pass
    error = errors.for_status(status)(status, slug, message)
    error.request_id = headers.get("x-request-id", request_id)
    error.details = details
    error.retry_after = _seconds(headers.get("retry-after", ""))
    return error


def _seconds(value: str) -> Optional[float]:
    return float(value) if value.isdigit() else None
