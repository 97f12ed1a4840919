"""Runs skills on this machine, without a server::

    from skillbox.local import Sandbox, validate_skill

    assert validate_skill("./word-counter").valid
    result = Sandbox("./word-counter", timeout=10, memory="128Mi").run(input={"text": "one two two"})
    print(result.exit_code, result.stdout, result.output)

Every run has its own single-use sandbox, without a network. The work is done by the program `skillbox`, which the
wheels for Linux contain. A script that fails is a result; `LocalError` means that no script ran.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional, Union

from ._decode import Model, list_of
from ._program import LocalError, ProgramNotFoundError, find_program, run_program
from .models import Finding, NetworkAttempt, SkippedFile

__all__ = [
    "LocalError",
    "LocalResult",
    "LocalValidation",
    "ProgramNotFoundError",
    "Sandbox",
    "find_program",
    "validate_skill",
]

PathLike = Union[str, "os.PathLike[str]"]

# The keys of a result that `to_jsonl` leaves out: they may hold secrets and have no bounded size.
_CONTENT = ("stdout", "stderr", "output")


@dataclass
class LocalResult(Model):
    """The end of one run. `raw` is the whole document of ``skillbox run -o json``."""

    # `success`, `failed`, `timeout` or `cancelled`.
    status: str = ""
    # `exited`, `timed_out`, `out_of_memory` and so on.
    outcome: str = ""
    # None if the script did not exit by itself and no signal ended it.
    exit_code: Optional[int] = None
    stdout: str = ""
    stderr: str = ""
    # The document that the script wrote to $SANDBOX_OUTPUT.
    output: Any = None
    # One sentence if the run did not succeed.
    error: str = ""
    duration_ms: int = 0
    # The output files of the script: dictionaries with `name` and `size_bytes`.
    files: list[dict[str, Any]] = field(default_factory=list)
    skipped: list[SkippedFile] = list_of(SkippedFile)
    # Limits that were lowered to the allowed maximum.
    clamped: list[str] = field(default_factory=list)
    # Outbound connection attempts; all of them were blocked unless `network_allowed`.
    network_attempts: list[NetworkAttempt] = list_of(NetworkAttempt)
    network_allowed: bool = False
    sandbox: str = ""
    skill_name: str = ""
    skill_version: str = ""
    digest: str = ""
    script: str = ""

    @property
    def ok(self) -> bool:
        """True if the script exited with 0 and its output was valid."""
        return self.status == "success"

    @property
    def timed_out(self) -> bool:
        """True if the script was stopped because it reached its time limit."""
        return self.outcome == "timed_out"

    @property
    def duration(self) -> float:
        """Seconds from the start of the script to its end."""
        return self.duration_ms / 1000

    def to_jsonl(self) -> str:
        """One line of JSON with a line break at its end, for a log: the facts of the run, without its content."""
        record = {"timed_out": self.timed_out}
        record.update((key, value) for key, value in self.raw.items() if key not in _CONTENT)
        return json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n"


@dataclass
class LocalValidation(Model):
    """What is wrong with a skill. `valid` is False if any finding is an error."""

    valid: bool = False
    path: str = ""
    profile: str = ""
    name: str = ""
    version: str = ""
    digest: str = ""
    # Why the skill cannot be used at all, if it cannot.
    message: str = ""
    findings: list[Finding] = list_of(Finding)


class Sandbox:
    """Runs the scripts of one skill. Each run has its own sandbox, so a `Sandbox` can be used by several threads.

    `skill` is a directory or a zip. `timeout` is in seconds; `memory` is a number of bytes or a text such as
    ``"128Mi"``. Both can only lower what the skill declares and what the policy of this machine allows; a limit that
    was lowered is named in `LocalResult.clamped`. `network=True` opens the whole network of this machine.
    `backend` is ``"native"`` or ``"docker"``; None is native, or Docker where native sandboxes are not possible.
    """

    def __init__(
        self,
        skill: PathLike,
        *,
        timeout: Optional[float] = None,
        memory: Union[int, str, None] = None,
        network: bool = False,
        env: Optional[Mapping[str, str]] = None,
        backend: Optional[str] = None,
        program: Optional[PathLike] = None,
    ) -> None:
        self.skill = Path(skill)
        self.timeout = timeout
        self.memory = memory
        self.network = network
        self.env = dict(env or {})
        self.backend = backend
        self.program = program

    def run(
        self,
        script: Optional[str] = None,
        args: Sequence[str] = (),
        *,
        input: Any = None,
        stdin: Union[str, bytes, None] = None,
        timeout: Optional[float] = None,
        memory: Union[int, str, None] = None,
        env: Optional[Mapping[str, str]] = None,
        download: Optional[PathLike] = None,
    ) -> LocalResult:
        """Runs `script`, a file of the skill, or its entrypoint, and waits until it has finished.

        `input` is a document that becomes JSON; `stdin` is the standard input. `timeout`, `memory` and `env` take
        precedence over those of the sandbox. `download` is a directory for the output files of the script.
        """
        if args and script is None:
            raise ValueError("args need a script")
        options = self._options(timeout, memory, env)
        if download is not None:
            options.append(f"--download={os.fspath(download)}")
        if stdin is not None:
            options.append("--stdin=-")
        # The positional arguments: an absolute path has a slash in it, so it is never the name of a skill on a server.
        target = [os.fspath(self.skill.absolute())] + ([] if script is None else [script])
        with tempfile.TemporaryDirectory(prefix="skillbox-") as directory:
            if input is not None:
                # Standard input may be in use, and a command line is limited and visible to other users.
                document = Path(directory, "input.json")
                document.write_text(json.dumps(input), encoding="utf-8")
                options.append(f"--input=@{document}")
            command = ["run", "--output=json", *options, *target, "--", *args]
            return LocalResult.decode(run_program(self.program, command, stdin))

    def _options(
        self, timeout: Optional[float], memory: Union[int, str, None], env: Optional[Mapping[str, str]]
    ) -> list[str]:
        options = []
        timeout = self.timeout if timeout is None else timeout
        memory = self.memory if memory is None else memory
        if timeout is not None:
            if not timeout > 0:
                raise ValueError("timeout must be positive")
            options.append(f"--timeout={max(1, round(timeout * 1000))}ms")
        if memory is not None:
            options.append(f"--memory={memory}")
        if self.network:
            options.append("--allow-network")
        if self.backend is not None:
            options.append(f"--sandbox={self.backend}")
        options += [f"--env={name}={value}" for name, value in {**self.env, **(env or {})}.items()]
        return options


def validate_skill(
    path: PathLike, *, profile: str = "default", strict: bool = False, program: Optional[PathLike] = None
) -> LocalValidation:
    """Checks a skill in a directory or a zip, without running it.

    `profile` selects the rules: ``default``, ``strict``, ``anthropic`` or ``openai``. With `strict`, warnings make
    a skill invalid too.
    """
    command = ["validate", "--output=json", f"--profile={profile}", os.fspath(Path(path).absolute())]
    validation = LocalValidation.decode(run_program(program, command, None))
    if strict and any(finding.severity == "warning" for finding in validation.findings):
        validation.valid = False
    return validation
