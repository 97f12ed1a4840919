"""Errors of this package.

``except APIError`` catches every failure of a call. A run that fails, times out or is refused is not a failed call:
see `RunResult.status`.
"""

from __future__ import annotations

from typing import Any, Optional


class SkillboxError(Exception):
    """Base class of all errors of this package."""


class ArchiveError(SkillboxError, ValueError):
    """A downloaded archive cannot be unpacked."""


class UnsafePathError(ArchiveError):
    """A downloaded archive contains a link, or a name that leads outside of the target directory."""


class WebhookError(SkillboxError, ValueError):
    """A webhook is not signed with this secret, or was signed too long ago."""


class APIError(SkillboxError):
    """The call failed.

    `status_code` is the HTTP status, or 0 if there was no response. `error_code` is the slug of the API, such as
    ``not_found``. `request_id` identifies the call in the server's log, even if there was no response.
    """

    def __init__(self, status_code: int, error_code: str = "", message: str = "") -> None:
        super().__init__(status_code, error_code, message)
        self.status_code = status_code
        self.error_code = error_code
        self.message = message
        self.request_id: str = ""
        self.details: Any = None
        self.retry_after: Optional[float] = None

    def __str__(self) -> str:
        head = f"skillbox: {self.status_code} {self.error_code}".rstrip()
        text = f"{head}: {self.message}" if self.message else head
        return f"{text} (request {self.request_id})" if self.request_id else text


class BadRequestError(APIError):
    """400: the request, or the skill in it, is malformed."""


class AuthenticationError(APIError):
    """401: the key is missing, unknown, expired or revoked."""


class PermissionDeniedError(APIError):
    """403: the key does not permit this call."""


class NotFoundError(APIError):
    """404: the object does not exist, or belongs to another tenant."""


class ConflictError(APIError):
    """409: the state of the object does not allow this, such as a finished run or an existing version."""


class TooLargeError(APIError):
    """413: the request is larger than the server allows."""


class UnprocessableError(APIError):
    """422: well-formed but rejected, such as a hostile archive or an idempotency key used with a different request."""


class RateLimitError(APIError):
    """429: too many requests. `retry_after` is the number of seconds to wait before a retry."""


class ServerError(APIError):
    """5xx: the server failed."""


class ConnectionFailedError(APIError):
    """The server is connect_failed, or the connection was lost before the response was complete."""

    # Whether the server may have received the request.
    sent: bool = True


class CallTimeoutError(ConnectionFailedError):
    """The response did not arrive in time. The server may still carry out the request."""


class InvalidResponseError(APIError):
    """The response does not come from a Skillbox server."""


_BY_STATUS: dict[int, type[APIError]] = {
    400: BadRequestError,
    401: AuthenticationError,
    403: PermissionDeniedError,
    404: NotFoundError,
    409: ConflictError,
    413: TooLargeError,
    422: UnprocessableError,
    429: RateLimitError,
}


def for_status(status: int) -> type[APIError]:
    """Returns the error class for an HTTP status."""
    return ServerError if status >= 500 else _BY_STATUS.get(status, APIError)
