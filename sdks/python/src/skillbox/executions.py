"""Calls for executions: starting, following and cancelling them, and downloading their files."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Optional

from ._aio_http import AsyncSender
from ._call import Call, Page, document, get, nothing, page, path_of, query_of, rows, text
from ._following import follow, follow_async
from ._forms import AnyPath
from ._http import Sender
from ._paging import iterate_pages, iterate_pages_async
from ._run import Seconds, run_call
from ._saving import atomic_file, unpack
from .models import Cancelled, Event, ExecutionSummary, FileInfo, ResultEvent, RunResult


class Executions(Sender):
    """Methods of `Client` that run skills."""

    def run(
        self,
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
        idempotency_key: str = "",
    ) -> RunResult:
        """Runs a skill and waits until it has finished, without a time limit.

        A script that fails is a result with ``status="failed"``, not an exception. After a lost connection, the
        client reconnects without running the skill twice. If this process exits, the run continues.

        Args:
            skill: The name of the skill.
            version: The version; empty means the newest.
            input: Any JSON value. `None` omits the input; `NULL` sends an explicit null.
            env: Environment variables for the script.
            input_files: Ids of uploaded files.
            script: A file of the skill to run instead of its entrypoint, with `args` and `stdin`.
            cwd: The working directory of the script: ``sandbox`` (the default), ``skill`` or ``workspace``.
            timeout: ``"30s"`` or seconds; can only lower the timeout of the skill.
            limits: ``{"memory": "128Mi", "cpu": "0.5"}``; can only lower the limits of the skill.
            idempotency_key: Replaces the generated key. Calls with the same key return the same execution.
        """
        return self._send(
            run_call(
                skill, version=version, input=input, env=env, input_files=input_files, script=script, args=args,
                stdin=stdin, cwd=cwd, timeout=timeout, limits=limits, idempotency_key=idempotency_key,
            )
        )  # fmt: skip

    def start(
        self,
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
        webhook: str = "",
        idempotency_key: str = "",
    ) -> RunResult:
        """Starts a run and returns immediately, with ``status="queued"``. See `run`, `wait`, `events` and `cancel`.

        `webhook` is a URL that is called when the run has finished. Verify these calls with
        `skillbox.webhooks.verify`.
        """
        return self._send(
            run_call(
                skill, version=version, input=input, env=env, input_files=input_files, script=script, args=args,
                stdin=stdin, cwd=cwd, timeout=timeout, limits=limits, webhook=webhook, mode="async",
                idempotency_key=idempotency_key,
            )
        )  # fmt: skip

    def wait(self, execution_id: str, *, timeout: Optional[float] = None) -> RunResult:
        """Waits until a run has finished. After `timeout` seconds, raises `CallTimeoutError`; the run continues."""
        for event in follow(self, execution_id, "", timeout):
            if isinstance(event, ResultEvent):
                return event.result
        raise AssertionError("a stream ends with a result or an error")

    def events(self, execution_id: str, *, after: str = "") -> Iterator[Event]:
        """Iterates over the events of a run in real time: `StateEvent`, `LogEvent`, and finally one `ResultEvent`.

        After a lost connection, the iterator reconnects and resumes. `after` is the `id` of the event after which
        to start.
        """
        return follow(self, execution_id, after, None)

    def cancel(self, execution_id: str) -> Cancelled:
        """Cancels a run. Raises `ConflictError` if it has already finished."""
        return self._send(_cancel(execution_id))

    def get_execution(self, execution_id: str) -> RunResult:
        """Returns an execution: finished, or its current state."""
        return self._send(get(document(RunResult), "v1", "executions", execution_id))

    def get_execution_logs(self, execution_id: str) -> str:
        """Returns standard output and error of a run, interleaved as written."""
        return self._send(get(text, "v1", "executions", execution_id, "logs"))

    def iter_executions(
        self, *, skill: str = "", status: str = "", since: str = "", key: str = "", page_size: int = 50
    ) -> Iterator[ExecutionSummary]:
        """Iterates over executions, newest first, fetching pages lazily."""
        return iterate_pages(self, lambda cursor: _list(skill, status, since, key, page_size, cursor))

    def list_execution_files(self, execution_id: str) -> list[FileInfo]:
        """Lists the files that a run wrote to its output directory."""
        return self._send(get(rows(FileInfo), "v1", "executions", execution_id, "files"))

    def download_execution_file(self, execution_id: str, name: str, dest_path: AnyPath) -> Path:
        """Downloads one file of a run to `dest_path`, streamed."""
        with atomic_file(dest_path) as file:
            self._download(_file(execution_id, name), file)
        return Path(dest_path)

    def download_files(self, result: RunResult, dest_dir: AnyPath) -> list[Path]:
        """Downloads all files of a run into `dest_dir` and returns their paths. Without files, does nothing."""
        if not result.has_files:
            return []
        with tempfile.TemporaryFile() as archive:
            self._download(_archive(result), archive)
            archive.seek(0)
            return unpack(archive, dest_dir)


class AsyncExecutions(AsyncSender):
    """Methods of `AsyncClient` that run skills. Cancelling a task that waits for a run does not cancel the run."""

    async def run(
        self,
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
        idempotency_key: str = "",
    ) -> RunResult:
        """See `Client.run`."""
        return await self._send(
            run_call(
                skill, version=version, input=input, env=env, input_files=input_files, script=script, args=args,
                stdin=stdin, cwd=cwd, timeout=timeout, limits=limits, idempotency_key=idempotency_key,
            )
        )  # fmt: skip

    async def start(
        self,
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
        webhook: str = "",
        idempotency_key: str = "",
    ) -> RunResult:
        """See `Client.start`."""
        return await self._send(
            run_call(
                skill, version=version, input=input, env=env, input_files=input_files, script=script, args=args,
                stdin=stdin, cwd=cwd, timeout=timeout, limits=limits, webhook=webhook, mode="async",
                idempotency_key=idempotency_key,
            )
        )  # fmt: skip

    async def wait(self, execution_id: str, *, timeout: Optional[float] = None) -> RunResult:
        """See `Client.wait`."""
        async for event in follow_async(self, execution_id, "", timeout):
            if isinstance(event, ResultEvent):
                return event.result
        raise AssertionError("a stream ends with a result or an error")

    def events(self, execution_id: str, *, after: str = "") -> AsyncIterator[Event]:
        """See `Client.events`; returns an async iterator."""
        return follow_async(self, execution_id, after, None)

    async def cancel(self, execution_id: str) -> Cancelled:
        """See `Client.cancel`."""
        return await self._send(_cancel(execution_id))

    async def get_execution(self, execution_id: str) -> RunResult:
        """See `Client.get_execution`."""
        return await self._send(get(document(RunResult), "v1", "executions", execution_id))

    async def get_execution_logs(self, execution_id: str) -> str:
        """See `Client.get_execution_logs`."""
        return await self._send(get(text, "v1", "executions", execution_id, "logs"))

    def iter_executions(
        self, *, skill: str = "", status: str = "", since: str = "", key: str = "", page_size: int = 50
    ) -> AsyncIterator[ExecutionSummary]:
        """See `Client.iter_executions`; returns an async iterator."""
        return iterate_pages_async(self, lambda cursor: _list(skill, status, since, key, page_size, cursor))

    async def list_execution_files(self, execution_id: str) -> list[FileInfo]:
        """See `Client.list_execution_files`."""
        return await self._send(get(rows(FileInfo), "v1", "executions", execution_id, "files"))

    async def download_execution_file(self, execution_id: str, name: str, dest_path: AnyPath) -> Path:
        """See `Client.download_execution_file`."""
        with atomic_file(dest_path) as file:
            await self._download(_file(execution_id, name), file)
        return Path(dest_path)

    async def download_files(self, result: RunResult, dest_dir: AnyPath) -> list[Path]:
        """See `Client.download_files`."""
        if not result.has_files:
            return []
        with tempfile.TemporaryFile() as archive:
            await self._download(_archive(result), archive)
            archive.seek(0)
            return await asyncio.to_thread(unpack, archive, dest_dir)


def _cancel(execution_id: str) -> Call[Cancelled]:
    return Call("POST", path_of("v1", "executions", execution_id, "cancel"), document(Cancelled))


def _list(skill: str, status: str, since: str, key: str, limit: int, cursor: str) -> Call[Page[ExecutionSummary]]:
    query = query_of(skill=skill, status=status, since=since, key=key, limit=limit, cursor=cursor)
    return get(page(ExecutionSummary), "v1", "executions", query=query)


def _file(execution_id: str, name: str) -> Call[None]:
    path = path_of("v1", "executions", execution_id, "files", *name.split("/"))
    return Call("GET", path, nothing, repeatable=True, long_running=True)


def _archive(result: RunResult) -> Call[None]:
    return Call("GET", result.files_url, nothing, repeatable=True, long_running=True, anonymous=True)
