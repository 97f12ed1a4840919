"""Why a call failed.

``except APIError`` catches everything that can go wrong between you and the server. A run that fails, times out or
is refused is not an error of the call: that is `RunResult.status`.
"""

from __future__ import annotations

from typing import Any, Optional


class SkillboxError(Exception):
    """Anything this package raises on purpose."""


class ArchiveError(SkillboxError, ValueError):
    """A downloaded archive cannot be unpacked."""


class UnsafePathError(ArchiveError):
    """A downloaded archive holds a link, or a name that would leave the directory it is unpacked into."""


class WebhookError(SkillboxError, ValueError):
    """A webhook that was not signed with this secret, or was signed too long ago."""


class APIError(SkillboxError):
    """The call failed.

    `status_code` is the HTTP status, and 0 when no answer came. `error_code` is the slug of the API, such as
    ``not_found``. `request_id` finds the call in the server's log, also when no answer came.
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
    """400: the request, or the skill in it, cannot be understood."""


class AuthenticationError(APIError):
    """401: no key, or one that is unknown, expired or revoked."""


class PermissionDeniedError(APIError):
    """403: the key may not do this."""


class NotFoundError(APIError):
    """404: there is no such thing, or it belongs to another tenant."""


class ConflictError(APIError):
    """409: the state of the thing does not allow this; the run has ended, the version exists."""


class TooLargeError(APIError):
    """413: larger than the server takes."""


class UnprocessableError(APIError):
    """422: understood and refused: a hostile archive, or an idempotency key that was used with another request."""


class RateLimitError(APIError):
    """429: too much at once. `retry_after` says in how many seconds to come back."""


class ServerError(APIError):
    """5xx: the server's failure."""


class ConnectionFailedError(APIError):
    """Nothing answers at that address, or the connection broke before the answer was whole."""

    # Whether the server may have seen the request.
    sent: bool = True


class CallTimeoutError(ConnectionFailedError):
    """The answer did not come in time. What was asked for may still happen."""


class InvalidResponseError(APIError):
    """Something answers there, but it does not speak our API."""


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
    """The class of an error with this HTTP status."""
    return ServerError if status >= 500 else _BY_STATUS.get(status, APIError)
