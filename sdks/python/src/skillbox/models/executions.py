"""Executions and their events."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Optional, Union

from .._decode import Model, list_of, nested_model, optional_model
from .files import FileInfo


@dataclass
class Usage(Model):
    """Resource usage of a run."""

    wall_ms: int = 0
    cpu_ms: int = 0
    peak_memory_bytes: int = 0
    bytes_in: int = 0
    bytes_out: int = 0


@dataclass
class Timings(Model):
    """Duration of each server-side step of a run, in milliseconds."""

    accept_ms: float = 0.0
    load_ms: float = 0.0
    launch_ms: float = 0.0
    run_ms: float = 0.0
    collect_ms: float = 0.0


@dataclass
class SkippedFile(Model):
    """An entry of the output directory that was not collected."""

    path: str = ""
    why: str = ""


@dataclass
class NetworkAttempt(Model):
    """An outbound connection attempt of the script, as recorded by the sandbox."""

    call: str = ""
    to: str = ""


@dataclass
class Doubt(Model):
    """Why the tenant does not trust a skill: the run was refused, or allowed with a warning."""

    code: str = ""
    message: str = ""


@dataclass
class RunResult(Model):
    """An execution: finished, or its current state."""

    execution_id: str = ""
    # queued, running, success, failed, timeout or cancelled
    status: str = ""
    output: Any = None
    # A presigned URL: it works without a key until it expires, so treat it as a secret.
    files_url: str = field(default="", repr=False)
    files_list: list[str] = field(default_factory=list)
    logs: str = ""
    duration_ms: int = 0
    # Empty if there was no error.
    error: str = ""
    exit_code: Optional[int] = None
    # How the run ended: exited, timed_out, out_of_memory, refused, ...
    outcome: str = ""
    # Only for runs with `script`.
    stdout: str = ""
    stderr: str = ""
    files: list[FileInfo] = list_of(FileInfo)
    skipped: list[SkippedFile] = list_of(SkippedFile)
    # Limits that were lowered to the allowed maximum.
    clamped: list[str] = field(default_factory=list)
    usage: Usage = nested_model(Usage)
    trust: Optional[Doubt] = optional_model(Doubt)
    network_attempts: list[NetworkAttempt] = list_of(NetworkAttempt)
    isolation: Any = None
    skill_name: str = ""
    skill_version: str = ""
    digest: str = ""
    attempt: int = 0
    timings: Timings = nested_model(Timings)
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
        """Whether the run succeeded."""
        return self.status == "success"

    @property
    def ended(self) -> bool:
        """Whether the run has finished, in any status."""
        return self.status not in ("queued", "running")


@dataclass
class ExecutionSummary(Model):
    """An entry in a list of executions."""

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
    """The result of a cancellation: `cancelled`, or `running` while the run is being stopped."""

    execution_id: str = ""
    status: str = ""


@dataclass
class StateEvent(Model):
    """The run was queued or started."""

    status: str = ""
    time: str = ""
    id: str = ""


@dataclass
class LogEvent(Model):
    """New log output. `stream` is `stdout` or `stderr` for runs with a script, otherwise `merged`."""

    stream: str = ""
    time: str = ""
    text: str = ""
    id: str = ""


@dataclass
class ResultEvent(Model):
    """The run has finished. This is the last event."""

    result: RunResult = field(default_factory=RunResult)
    id: str = ""


Event = Union[StateEvent, LogEvent, ResultEvent]
