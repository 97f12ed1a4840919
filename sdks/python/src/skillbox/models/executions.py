"""Runs of skills, and what they say while they run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Optional, Union

from .._decode import Model, many, maybe, one
from .files import FileInfo


@dataclass
class Usage(Model):
    """What a run cost."""

    wall_ms: int = 0
    cpu_ms: int = 0
    peak_memory_bytes: int = 0
    bytes_in: int = 0
    bytes_out: int = 0


@dataclass
class Timings(Model):
    """How long each step of a run took on the server's side, in milliseconds."""

    accept_ms: float = 0.0
    load_ms: float = 0.0
    launch_ms: float = 0.0
    run_ms: float = 0.0
    collect_ms: float = 0.0


@dataclass
class SkippedFile(Model):
    """What lay in the output directory and was not collected."""

    path: str = ""
    why: str = ""


@dataclass
class NetworkAttempt(Model):
    """A call of the script for another machine, as the sandbox saw it."""

    call: str = ""
    to: str = ""


@dataclass
class Doubt(Model):
    """Why the tenant does not trust a skill: a run was refused for it, or went on in spite of it."""

    code: str = ""
    message: str = ""


@dataclass
class RunResult(Model):
    """A run of a skill: ended, or as far as it is."""

    execution_id: str = ""
    # queued, running, success, failed, timeout or cancelled
    status: str = ""
    output: Any = None
    # Needs no key and expires, so it is a secret meanwhile.
    files_url: str = field(default="", repr=False)
    files_list: list[str] = field(default_factory=list)
    logs: str = ""
    duration_ms: int = 0
    # Empty when there is none.
    error: str = ""
    exit_code: Optional[int] = None
    # The true cause of the end: exited, timed_out, out_of_memory, refused, ...
    outcome: str = ""
    # Only of runs with `script`.
    stdout: str = ""
    stderr: str = ""
    files: list[FileInfo] = many(FileInfo)
    skipped: list[SkippedFile] = many(SkippedFile)
    # A sentence for each limit that was asked for and not given.
    clamped: list[str] = field(default_factory=list)
    usage: Usage = one(Usage)
    trust: Optional[Doubt] = maybe(Doubt)
    network_attempts: list[NetworkAttempt] = many(NetworkAttempt)
    isolation: Any = None
    skill_name: str = ""
    skill_version: str = ""
    digest: str = ""
    attempt: int = 0
    timings: Timings = one(Timings)
    tenant_id: str = ""
    input: Any = None
    created_at: str = ""
    started_at: str = ""
    finished_at: str = ""

    @property
    def has_files(self) -> bool:
        """Whether there are files to download."""
        return bool(self.files_url)

    @property
    def ok(self) -> bool:
        """Whether it succeeded."""
        return self.status == "success"

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen to it."""
        return self.status not in ("queued", "running")


@dataclass
class ExecutionSummary(Model):
    """A row of the list of executions."""

    execution_id: str = ""
    skill_name: str = ""
    skill_version: str = ""
    tenant_id: str = ""
    status: str = ""
    duration_ms: int = 0
    error: str = ""
    created_at: str = ""
    started_at: str = ""
    finished_at: str = ""
    exit_code: Optional[int] = None
    outcome: str = ""
    digest: str = ""
    attempt: int = 0
    key_id: str = ""


@dataclass
class Cancelled(Model):
    """What became of a request to stop a run: `cancelled`, or `running` while it is being stopped."""

    execution_id: str = ""
    status: str = ""


@dataclass
class StateEvent(Model):
    """The run is queued, or runs now."""

    status: str = ""
    time: str = ""
    id: str = ""


@dataclass
class LogEvent(Model):
    """A piece of the log as it is written; `stream` is `stdout` or `stderr` for runs with a script, else `merged`."""

    stream: str = ""
    time: str = ""
    text: str = ""
    id: str = ""


@dataclass
class ResultEvent(Model):
    """The run has ended. Nothing comes after this."""

    result: RunResult = field(default_factory=RunResult)
    id: str = ""


Event = Union[StateEvent, LogEvent, ResultEvent]
