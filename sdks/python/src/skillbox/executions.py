"""Runs: starting one, following it, stopping it, and its files."""

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
from ._paging import walk, walk_async
from ._run import Seconds, run_call
from ._saving import unpack, whole_file
from .models import Cancelled, Event, ExecutionSummary, FileInfo, ResultEvent, RunResult


class Executions(Sender):
    """The part of `Client` that runs skills."""

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
        """Runs a skill and waits for its end, however long that takes.

        A script that fails is a result with ``status="failed"``, not an exception. A lost connection is taken up
        again without running the skill twice; if this process ends, the run still goes on.

        Args:
            skill: Its name.
            version: Empty means the newest.
            input: Any JSON. `None` sends none; `NULL` sends an explicit null.
            env: Variables for the script.
            input_files: Ids of uploaded files.
            script: A file of the skill to run instead of its entrypoint, with `args` and `stdin`.
            cwd: Where the script starts: ``sandbox`` (the default), ``skill`` or ``workspace``.
            timeout: ``"30s"`` or seconds; can only tighten the skill's own.
            limits: ``{"memory": "128Mi", "cpu": "0.5"}``; can only tighten.
            idempotency_key: Yours instead of one made for this call: the same key gives the same execution.
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
        """Starts a run and returns at once, with ``status="queued"``. See `run`, `wait`, `events` and `cancel`.

        `webhook` is a URL that is called when the run has ended; check such calls with `skillbox.webhooks.verify`.
        """
        return self._send(
            run_call(
                skill, version=version, input=input, env=env, input_files=input_files, script=script, args=args,
                stdin=stdin, cwd=cwd, timeout=timeout, limits=limits, webhook=webhook, mode="async",
                idempotency_key=idempotency_key,
            )
        )  # fmt: skip

    def wait(self, execution_id: str, *, timeout: Optional[float] = None) -> RunResult:
        """Waits for the end of a run. After `timeout` seconds it raises `CallTimeoutError`; the run goes on."""
        for event in follow(self, execution_id, "", timeout):
            if isinstance(event, ResultEvent):
                return event.result
        raise AssertionError("a stream ends with a result or an error")

    def events(self, execution_id: str, *, after: str = "") -> Iterator[Event]:
        """The events of a run as they happen: `StateEvent`, `LogEvent`, and at last one `ResultEvent`.

        Broken connections are taken up where they broke. `after` is the `id` of an event to go on behind.
        """
        return follow(self, execution_id, after, None)

    def cancel(self, execution_id: str) -> Cancelled:
        """Stops a run. `ConflictError` when it has ended already."""
        return self._send(_cancel(execution_id))

    def get_execution(self, execution_id: str) -> RunResult:
        """A run as it is now, or as it ended."""
        return self._send(get(document(RunResult), "v1", "executions", execution_id))

    def get_execution_logs(self, execution_id: str) -> str:
        """Standard output and error of a run, interleaved as written."""
        return self._send(get(text, "v1", "executions", execution_id, "logs"))

    def iter_executions(
        self, *, skill: str = "", status: str = "", since: str = "", key: str = "", page_size: int = 50
    ) -> Iterator[ExecutionSummary]:
        """Executions, newest first, fetched page by page as you go."""
        return walk(self, lambda cursor: _list(skill, status, since, key, page_size, cursor))

    def list_execution_files(self, execution_id: str) -> list[FileInfo]:
        """What a run left in its output directory."""
        return self._send(get(rows(FileInfo), "v1", "executions", execution_id, "files"))

    def download_execution_file(self, execution_id: str, name: str, dest_path: AnyPath) -> Path:
        """Saves one file of a run, streamed, as `dest_path`."""
        with whole_file(dest_path) as file:
            self._download(_file(execution_id, name), file)
        return Path(dest_path)

    def download_files(self, result: RunResult, dest_dir: AnyPath) -> list[Path]:
        """Saves all files of a run below `dest_dir` and returns where they are. Does nothing when there are none."""
        if not result.has_files:
            return []
        with tempfile.TemporaryFile() as archive:
            self._download(_archive(result), archive)
            archive.seek(0)
            return unpack(archive, dest_dir)


class AsyncExecutions(AsyncSender):
    """The part of `AsyncClient` that runs skills. Cancelling a task that waits for a run leaves the run alone."""

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
        """As `Client.run`."""
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
        """As `Client.start`."""
        return await self._send(
            run_call(
                skill, version=version, input=input, env=env, input_files=input_files, script=script, args=args,
                stdin=stdin, cwd=cwd, timeout=timeout, limits=limits, webhook=webhook, mode="async",
                idempotency_key=idempotency_key,
            )
        )  # fmt: skip

    async def wait(self, execution_id: str, *, timeout: Optional[float] = None) -> RunResult:
        """As `Client.wait`."""
        async for event in follow_async(self, execution_id, "", timeout):
            if isinstance(event, ResultEvent):
                return event.result
        raise AssertionError("a stream ends with a result or an error")

    def events(self, execution_id: str, *, after: str = "") -> AsyncIterator[Event]:
        """As `Client.events`, for ``async for``."""
        return follow_async(self, execution_id, after, None)

    async def cancel(self, execution_id: str) -> Cancelled:
        """As `Client.cancel`."""
        return await self._send(_cancel(execution_id))

    async def get_execution(self, execution_id: str) -> RunResult:
        """As `Client.get_execution`."""
        return await self._send(get(document(RunResult), "v1", "executions", execution_id))

    async def get_execution_logs(self, execution_id: str) -> str:
        """As `Client.get_execution_logs`."""
        return await self._send(get(text, "v1", "executions", execution_id, "logs"))

    def iter_executions(
        self, *, skill: str = "", status: str = "", since: str = "", key: str = "", page_size: int = 50
    ) -> AsyncIterator[ExecutionSummary]:
        """As `Client.iter_executions`, for ``async for``."""
        return walk_async(self, lambda cursor: _list(skill, status, since, key, page_size, cursor))

    async def list_execution_files(self, execution_id: str) -> list[FileInfo]:
        """As `Client.list_execution_files`."""
        return await self._send(get(rows(FileInfo), "v1", "executions", execution_id, "files"))

    async def download_execution_file(self, execution_id: str, name: str, dest_path: AnyPath) -> Path:
        """As `Client.download_execution_file`."""
        with whole_file(dest_path) as file:
            await self._download(_file(execution_id, name), file)
        return Path(dest_path)

    async def download_files(self, result: RunResult, dest_dir: AnyPath) -> list[Path]:
        """As `Client.download_files`."""
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
    return Call("GET", path, nothing, repeatable=True, patient=True)


def _archive(result: RunResult) -> Call[None]:
    return Call("GET", result.files_url, nothing, repeatable=True, patient=True, anonymous=True)
