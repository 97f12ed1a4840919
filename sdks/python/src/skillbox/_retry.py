"""Whether a failed call is sent again, and after how long.

A call that is harmless to repeat, or that never reached the server, is sent again when the connection is lost. 429
and 503 mean that nothing was done, so every call may come back. A timeout of the caller's own making is final,
unless it was over before anything was sent.
"""

from __future__ import annotations

import random
from typing import Any, Optional

from ._call import Call
from .errors import APIError, CallTimeoutError, ConnectionFailedError

FIRST_PAUSE_S = 0.25
LONGEST_PAUSE_S = 8.0
# If Retry-After asks for more than this, the error is raised and the caller decides.
LONGEST_RETRY_AFTER_S = 60.0


def pause_before_retry(call: Call[Any], error: APIError, attempt: int, retries: int) -> Optional[float]:
    """Seconds to wait before the next attempt; None when `error` is final. `attempt` counts from zero."""
    if attempt >= retries or not _is_worth_it(call, error):
        return None
    if error.retry_after is not None:
        return error.retry_after if error.retry_after <= LONGEST_RETRY_AFTER_S else None
    longest = min(FIRST_PAUSE_S * 2.0**attempt, LONGEST_PAUSE_S)
    # Clients that failed together should not come back together.
    return random.uniform(longest / 2, longest)  # noqa: S311


def _is_worth_it(call: Call[Any], error: APIError) -> bool:
    if isinstance(error, ConnectionFailedError):
        return not error.sent or (call.repeatable and not isinstance(error, CallTimeoutError))
    return error.status_code in (429, 503)
