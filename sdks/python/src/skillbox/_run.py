"""The call that runs a skill."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Optional, Union

from ._call import Call, document, json_body, path_of
from ._endpoint import new_id
from .models import RunResult


class _Null:
    def __repr__(self) -> str:
        return "skillbox.NULL"


# As `input`: an explicit JSON null. `None` omits the input; the skill then receives `{}`.
NULL: Final = _Null()

Seconds = Union[str, float, None]


def run_call(
    skill: str,
    *,
    version: str = "",
    input: Any = None,
    env: Optional[Mapping[str, str]] = None,
    input_files: Optional[Sequence[str]] = None,
    script: str = "",
    args: Optional[Sequence[str]] = None,
    stdin: Optional[str] = None,
    cwd: str = "",
    timeout: Seconds = None,
    limits: Optional[Mapping[str, str]] = None,
    mode: str = "",
    webhook: str = "",
    idempotency_key: str = "",
) -> Call[RunResult]:
    given = {
        "version": version,
        "env": dict(env or {}),
        "input_files": list(input_files or ()),
        "script": script,
        "args": list(args or ()),
        "cwd": cwd,
        "timeout": _duration(timeout),
        "limits": dict(limits or {}),
        "mode": mode,
        "webhook": webhook,
    }
    body: dict[str, Any] = {"skill": skill, **{name: value for name, value in given.items() if value}}
    if input is not None:
        body["input"] = None if input is NULL else input
    if stdin is not None:
        body["stdin"] = stdin
    return Call(
        "POST",
        path_of("v1", "executions"),
        document(RunResult),
        # One key for all attempts of this call, so retries do not run the skill twice.
        headers={"Idempotency-Key": idempotency_key or new_id()},
        body=json_body(body),
        repeatable=True,
        long_running=mode != "async",
    )


def _duration(timeout: Seconds) -> str:
    if timeout is None or isinstance(timeout, str):
        return timeout or ""
    return f"{max(1, round(timeout * 1000))}ms"
