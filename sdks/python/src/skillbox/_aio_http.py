"""Asynchronous HTTP/1.1 transport on asyncio streams, limited to what a client of this API needs.

Cancelling a task closes its connection immediately. Each call uses its own connection; proxies are not used.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import asynccontextmanager
from typing import IO, Any, Callable, Optional, TypeVar
from urllib.parse import SplitResult

from ._call import MAX_ERROR_BODY_BYTES, Answer, Body, BytesBody, Call, error_from_response, read_answer
from ._endpoint import CHUNK_BYTES, Endpoint, new_id
from ._failures import connect_failed, connect_timed_out, connection_lost, not_http, redacted_url, timed_out
from ._retry import retry_delay
from .errors import APIError

T = TypeVar("T")

# Limit for the status line and all headers of one response.
MAX_HEAD_BYTES = 64 * 1024


class AsyncStream:
    """A response whose body is still being received."""

    def __init__(self, reader: asyncio.StreamReader, shown: str, request_id: str, idle: Optional[float]) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.request_id = request_id
        self._reader = reader
        self._shown = shown
        self._idle = idle
        # Bytes left in the body, or in the current chunk. None: the body ends when the connection is closed.
        self._left: Optional[int] = 0
        self._chunked = False

    def set_idle_timeout(self, seconds: Optional[float]) -> None:
        self._idle = seconds

    async def read_head(self) -> None:
        """Reads status and headers, skipping interim (1xx) responses."""
        while True:
            lines = await self._read_head_lines()
            version, _, rest = lines[0].partition(" ")
            if not version.startswith("HTTP/1.") or not rest[:3].isdigit():
                raise not_http(self._shown, self.request_id)
            self.status = int(rest[:3])
            if self.status >= 200:
                break
        for line in lines[1:]:
            name, _, value = line.partition(":")
            self.headers[name.strip().lower()] = value.strip()
        self.request_id = self.headers.get("x-request-id", self.request_id)
        self._chunked = "chunked" in self.headers.get("transfer-encoding", "").lower()
        length = self.headers.get("content-length", "")
        if not self._chunked and self.status not in (204, 304):
            self._left = int(length) if length.isdigit() else None

    async def chunks(self) -> AsyncIterator[bytes]:
        while data := await self.chunk():
            yield data

    async def chunk(self) -> bytes:
        """Returns the next chunk, empty at the end. Raises an error if the body is truncated."""
        if self._left == 0 and not (self._chunked and await self._read_chunk_size()):
            return b""
        data = await self._wait(self._reader.read(min(self._left or CHUNK_BYTES, CHUNK_BYTES)))
        if self._left is not None:
            if not data:
                raise connection_lost(self._shown, self.request_id, f"{self._left} bytes are missing")
            self._left -= len(data)
            if self._chunked and self._left == 0:
                await self._read_line()
        return data

    async def _read_chunk_size(self) -> bool:
        size = (await self._read_line()).partition(";")[0]
        try:
            self._left = int(size, 16)
        except ValueError:
            raise connection_lost(self._shown, self.request_id, "the body was cut") from None
        self._chunked = self._left > 0
        return self._chunked

    async def _read_head_lines(self) -> list[str]:
        lines, size = [], 0
        while line := await self._read_line():
            lines.append(line)
            size += len(line)
            if size > MAX_HEAD_BYTES:
                raise not_http(self._shown, self.request_id)
        if not lines:
            raise not_http(self._shown, self.request_id)
        return lines

    async def _read_line(self) -> str:
        line = await self._wait(self._reader.readline())
        # End of file must not be mistaken for the blank line that ends the headers.
        if not line.endswith(b"\n"):
            raise connection_lost(
                self._shown, self.request_id, "it was closed in the middle of the answer, or before it"
            )
        return line.decode("latin-1").rstrip("\r\n")

    async def _wait(self, reading: Awaitable[bytes]) -> bytes:
        try:
            return await asyncio.wait_for(reading, self._idle)
        except asyncio.TimeoutError as cause:
            raise timed_out(self._shown, self.request_id) from cause
        except (OSError, EOFError) as cause:
            raise connection_lost(self._shown, self.request_id, cause) from cause
        except ValueError as cause:
            # The line exceeds the limit of the stream reader.
            raise not_http(self._shown, self.request_id) from cause


class AsyncSender:
    """Base class of the resources of the asynchronous client."""

    _endpoint: Endpoint

    async def _send(self, call: Call[T]) -> T:
        """Sends a call and decodes its response, with retries where that is safe."""

        async def attempt(request_id: str) -> T:
            async with self._open(call, request_id) as stream:
                pieces = [piece async for piece in stream.chunks()]
                answer = Answer(stream.status, stream.headers, b"".join(pieces))
            return read_answer(call, answer, request_id)

        return await self._send_with_retries(call, attempt)

    async def _download(self, call: Call[Any], file: IO[bytes]) -> None:
        """Sends a call and writes the response body to a file; a retry starts from the beginning."""

        async def attempt(request_id: str) -> None:
            file.seek(0)
            file.truncate()
            async with self._open(call, request_id) as stream:
                async for chunk in stream.chunks():
                    await asyncio.to_thread(file.write, chunk)

        await self._send_with_retries(call, attempt)

    async def _send_with_retries(self, call: Call[Any], attempt: Callable[[str], Awaitable[T]]) -> T:
        request_id = new_id()
        for count in range(self._endpoint.retries + 1):
            try:
                return await attempt(request_id)
            except APIError as error:
                pause = retry_delay(call, error, count, self._endpoint.retries)
                if pause is None:
                    raise
                await asyncio.sleep(pause)
        raise AssertionError("the last attempt either returns or raises")

    @asynccontextmanager
    async def _open(self, call: Call[Any], request_id: str) -> AsyncIterator[AsyncStream]:
        """Sends a call once and yields the successful response; every failure is raised."""
        url = self._endpoint.url(call)
        shown = redacted_url(call, url)
        reader, writer = await _connect(url, self._endpoint.connect_timeout(call), shown, request_id)
        try:
            idle = self._endpoint.idle_timeout(call)
            stream = AsyncStream(reader, shown, request_id, idle)
            await _write(writer, call, url, self._endpoint.headers(call, request_id), stream)
            await stream.read_head()
            if not 200 <= stream.status < 300 and stream.status not in call.answers:
                raise error_from_response(stream.status, stream.headers, await _read_error_body(stream), request_id)
            yield stream
        finally:
            # Not awaited: a peer that does not close its end must not delay a cancelled task.
            writer.transport.abort()


async def _connect(
    url: SplitResult, timeout: float, shown: str, request_id: str
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    secure = url.scheme == "https"
    context = ssl.create_default_context() if secure else None
    opening = asyncio.open_connection(url.hostname, url.port or (443 if secure else 80), ssl=context)
    try:
        return await asyncio.wait_for(opening, timeout)
    except (TimeoutError, asyncio.TimeoutError) as cause:
        raise connect_timed_out(shown, request_id) from cause
    except OSError as cause:
        raise connect_failed(shown, request_id, cause) from cause


async def _write(
    writer: asyncio.StreamWriter, call: Call[Any], url: SplitResult, headers: dict[str, str], stream: AsyncStream
) -> None:
    target = url.path + (f"?{url.query}" if url.query else "")
    lines = [f"{call.method} {target} HTTP/1.1", f"Host: {url.netloc.rpartition('@')[2]}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    try:
        writer.write("\r\n".join([*lines, "", ""]).encode("ascii"))
        async for chunk in _body_chunks(call.body):
            writer.write(chunk)
            await asyncio.wait_for(writer.drain(), stream._idle)
    except (BrokenPipeError, ConnectionResetError):
        # The server stopped reading, possibly because it has already answered 413. Its response is read next.
        pass
    except asyncio.TimeoutError as cause:
        raise timed_out(stream._shown, stream.request_id) from cause


async def _body_chunks(body: Optional[Body]) -> AsyncIterator[bytes]:
    """Yields the chunks of a body. Files are read in a thread, because disk reads block."""
    if body is None:
        return
    if isinstance(body, BytesBody):
        yield body.data
        return
    pieces: Iterator[bytes] = body.chunks()
    while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
        yield piece


async def _read_error_body(stream: AsyncStream) -> bytes:
    body = b""
    try:
        async for chunk in stream.chunks():
            body += chunk
            if len(body) > MAX_ERROR_BODY_BYTES:
                break
    except APIError:
        # The status alone is enough for an error.
        pass
    return body
