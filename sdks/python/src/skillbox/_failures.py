"""The errors of calls without an answer, said so that a person knows what to do next."""

from __future__ import annotations

from typing import Any, Union
from urllib.parse import SplitResult

from ._call import Call
from .errors import CallTimeoutError, ConnectionFailedError, InvalidResponseError


def shown_url(call: Call[Any], url: SplitResult) -> str:
    """A URL as it may stand in a message. One that needs no key is itself a secret."""
    place = f"{url.scheme}://{url.netloc.rpartition('@')[2]}"
    return place if call.anonymous else place + url.path


def unreachable(url: str, request_id: str, cause: BaseException) -> ConnectionFailedError:
    error = ConnectionFailedError(0, "", f"cannot connect to {url}: {_said(cause)}. Is the server running?")
    error.request_id = request_id
    error.sent = False
    return error


def connects_late(url: str, request_id: str) -> CallTimeoutError:
    error = CallTimeoutError(0, "", f"cannot connect to {url}: it did not answer in time. Is the server running?")
    error.request_id = request_id
    error.sent = False
    return error


def broken(url: str, request_id: str, cause: Union[BaseException, str]) -> ConnectionFailedError:
    error = ConnectionFailedError(0, "", f"the connection to {url} broke: {_said(cause)}")
    error.request_id = request_id
    return error


def timed_out(url: str, request_id: str) -> CallTimeoutError:
    error = CallTimeoutError(0, "", f"{url} did not answer in time")
    error.request_id = request_id
    return error


def not_http(url: str, request_id: str) -> InvalidResponseError:
    error = InvalidResponseError(0, "", f"what answers at {url} does not speak HTTP")
    error.request_id = request_id
    return error


def _said(cause: Union[BaseException, str]) -> str:
    return str(cause) or type(cause).__name__
