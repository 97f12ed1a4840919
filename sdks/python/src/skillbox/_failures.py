"""Errors of calls that got no response, with messages that suggest what to do."""

from __future__ import annotations

from typing import Any, Union
from urllib.parse import SplitResult

from ._call import Call
from .errors import CallTimeoutError, ConnectionFailedError, InvalidResponseError


def redacted_url(call: Call[Any], url: SplitResult) -> str:
    """Returns a URL for use in messages. The path of a presigned URL is a secret, so it is left out."""
    shown = f"{url.scheme}://{url.netloc.rpartition('@')[2]}"
    return shown if call.anonymous else shown + url.path


def connect_failed(url: str, request_id: str, cause: BaseException) -> ConnectionFailedError:
    error = ConnectionFailedError(0, "", f"cannot connect to {url}: {_cause_text(cause)}. Is the server running?")
    error.request_id = request_id
    error.sent = False
    return error


def connect_timed_out(url: str, request_id: str) -> CallTimeoutError:
    error = CallTimeoutError(0, "", f"cannot connect to {url}: it did not answer in time. Is the server running?")
    error.request_id = request_id
    error.sent = False
    return error


def connection_lost(url: str, request_id: str, cause: Union[BaseException, str]) -> ConnectionFailedError:
    error = ConnectionFailedError(0, "", f"the connection to {url} broke: {_cause_text(cause)}")
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


def _cause_text(cause: Union[BaseException, str]) -> str:
    return str(cause) or type(cause).__name__
