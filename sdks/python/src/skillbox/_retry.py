"""Retry policy: whether a failed call is retried, and after what delay.

After a lost connection, a call is retried if it is idempotent or never reached the server. 429 and 503 mean that the
server did nothing, so every call can be retried. A timeout that the caller set is final, unless it expired before
anything was sent.
"""

from __future__ import annotations

import random
from typing import Any, Optional

from ._call import Call
from .errors import APIError, CallTimeoutError, ConnectionFailedError

MIN_RETRY_DELAY_S = 0.25
MAX_RETRY_DELAY_S = 8.0
# If Retry-After is longer than this, the error is raised and the caller decides.
MAX_RETRY_AFTER_S = 60.0


def retry_delay(call: Call[Any], error: APIError, attempt: int, retries: int) -> Optional[float]:
    """Returns the delay before the next attempt in seconds, or None if `error` is final. `attempt` starts at 0."""
    if attempt >= retries or not _is_retryable(call, error):
        return None
    if error.retry_after is not None:
        return error.retry_after if error.retry_after <= MAX_RETRY_AFTER_S else None
    longest = min(MIN_RETRY_DELAY_S * 2.0**attempt, MAX_RETRY_DELAY_S)
    # Jitter: clients that failed at the same time should not retry at the same time.
    return random.uniform(longest / 2, longest)  # noqa: S311


def _is_retryable(call: Call[Any], error: APIError) -> bool:
    if isinstance(error, ConnectionFailedError):
        return not error.sent or (call.repeatable and not isinstance(error, CallTimeoutError))
    return error.status_code in (429, 503)
