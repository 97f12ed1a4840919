"""Finds and runs the program `skillbox` on this machine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Union

from .errors import SkillboxError

# How long an interrupted program may take to remove its sandbox.
_STOP_SECONDS = 10


class LocalError(SkillboxError):
    """No script ran: the skill, an option or this machine does not allow it. The message comes from the program."""


class ProgramNotFoundError(LocalError):
    """The program `skillbox` is not installed."""


def find_program() -> str:
    """Finds the program: ``$SKILLBOX_BIN``, then the one installed with this package, then ``PATH``."""
    for candidate in _candidates():
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return os.fspath(candidate)
    found = shutil.which("skillbox")
    if found is None:
        raise ProgramNotFoundError(
            "The program skillbox was not found. Install the wheel for Linux, or set SKILLBOX_BIN to its path."
        )
    return found


def _candidates() -> Iterator[Path]:
    named = os.environ.get("SKILLBOX_BIN")
    if named:
        yield Path(named)
    # Next to the interpreter in a virtual environment; the others are `pip install --user` and `--target`.
    yield Path(sysconfig.get_path("scripts"), "skillbox")
    scheme = "posix_user" if os.name == "posix" else "nt_user"
    yield Path(sysconfig.get_path("scripts", scheme), "skillbox")
    yield Path(__file__).parents[1] / "bin" / "skillbox"


def run_program(
    program: Union[str, os.PathLike[str], None], args: Sequence[str], stdin: Union[str, bytes, None]
) -> Any:
    """Runs the program and returns the JSON document that it prints. Raises `LocalError` if there is none."""
    path = find_program() if program is None else os.fspath(program)
    data = stdin.encode() if isinstance(stdin, str) else stdin
    source = subprocess.DEVNULL if data is None else subprocess.PIPE
    try:
        process = subprocess.Popen(  # noqa: S603
            [path, *args], stdin=source, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
    except OSError as error:
        raise ProgramNotFoundError(f"The program {path} cannot be started: {error.strerror}.") from error
    try:
        out, err = process.communicate(data)
    except BaseException:
        # Such as KeyboardInterrupt. The program removes its sandbox before it exits.
        _stop(process)
        raise
    return _document(out, err, process.returncode)


def _document(out: bytes, err: bytes, code: int) -> Any:
    # The exit code is not used: a script may exit with a code that the program uses for its own errors.
    try:
        return json.loads(out)
    except ValueError:
        message = err.decode("utf-8", "replace").strip().rpartition("error: ")[2]
        raise LocalError(message or f"The program ended with code {code} and printed no result.") from None


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            stream.close()
