"""Blocking HTTP transport on http.client. Each call uses its own connection, so threads can share a client."""

from __future__ import annotations

import base64
import http.client
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any, Callable, Optional, TypeVar
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from ._call import MAX_ERROR_BODY_BYTES, Answer, Call, error_from_response, read_answer
from ._endpoint import CHUNK_BYTES, Endpoint, new_id
from ._failures import connect_failed, connect_timed_out, connection_lost, not_http, redacted_url, timed_out
from ._retry import retry_delay
from .errors import APIError

T = TypeVar("T")


class Stream:
    """A successful response whose body is still being received."""

    def __init__(self, response: http.client.HTTPResponse, url: str, request_id: str, sock: socket.socket) -> None:
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.request_id = self.headers.get("x-request-id", request_id)
        self._response = response
        self._url = url
        self._sock = sock
        self._missing = response.length
        # http.client treats end of file as the end of the headers, and a body without a length ends with the
        # connection. An empty body of this kind therefore means that the response was truncated.
        self._needs_data = response.length is None and not response.chunked

    def set_idle_timeout(self, seconds: Optional[float]) -> None:
        self._sock.settimeout(seconds)

    def chunk(self) -> bytes:
        """Returns the next chunk, empty at the end. Raises an error if the body is truncated."""
        if self._missing == 0:
            return b""
        try:
            data = self._response.read1(CHUNK_BYTES)
        except socket.timeout as cause:
            raise timed_out(self._url, self.request_id) from cause
        except (OSError, http.client.HTTPException) as cause:
            raise connection_lost(self._url, self.request_id, cause) from cause
        if self._needs_data and not data:
            raise connection_lost(self._url, self.request_id, "it was closed in the middle of the answer")
        self._needs_data = False
        if self._missing is not None:
            self._missing -= len(data)
            if not data:
                raise connection_lost(self._url, self.request_id, f"{self._missing} bytes are missing")
        return data

    def chunks(self) -> Iterator[bytes]:
        while data := self.chunk():
            yield data


class Sender:
    """Base class of the resources of the synchronous client."""

    _endpoint: Endpoint

    def _send(self, call: Call[T]) -> T:
        """Sends a call and decodes its response, with retries where that is safe."""

        def attempt(request_id: str) -> T:
            with self._open(call, request_id) as stream:
                answer = Answer(stream.status, stream.headers, b"".join(stream.chunks()))
            return read_answer(call, answer, request_id)

        return self._send_with_retries(call, attempt)

    def _download(self, call: Call[Any], file: IO[bytes]) -> None:
        """Sends a call and writes the response body to a file; a retry starts from the beginning."""

        def attempt(request_id: str) -> None:
            file.seek(0)
            file.truncate()
            with self._open(call, request_id) as stream:
                for chunk in stream.chunks():
                    file.write(chunk)

        self._send_with_retries(call, attempt)

    def _send_with_retries(self, call: Call[Any], attempt: Callable[[str], T]) -> T:
        request_id = new_id()
        for count in range(self._endpoint.retries + 1):
            try:
                return attempt(request_id)
            except APIError as error:
                pause = retry_delay(call, error, count, self._endpoint.retries)
                if pause is None:
                    raise
                time.sleep(pause)
        raise AssertionError("the last attempt either returns or raises")

    @contextmanager
    def _open(self, call: Call[Any], request_id: str) -> Iterator[Stream]:
        """Sends a call once and yields the successful response; every failure is raised."""
        url = self._endpoint.url(call)
        shown = redacted_url(call, url)
        connection = _connect(url, self._endpoint.connect_timeout(call), shown, request_id)
        try:
            sock = connection.sock
            sock.settimeout(self._endpoint.idle_timeout(call))
            headers = self._endpoint.headers(call, request_id)
            with _exchange(connection, call, url, headers, shown) as response:
                stream = Stream(response, shown, request_id, sock)
                if not 200 <= stream.status < 300 and stream.status not in call.answers:
                    raise error_from_response(stream.status, stream.headers, _read_error_body(stream), request_id)
                yield stream
        finally:
            connection.close()


def _exchange(
    connection: http.client.HTTPConnection, call: Call[Any], url: SplitResult, headers: dict[str, str], shown: str
) -> http.client.HTTPResponse:
    request_id = headers["X-Request-ID"]
    body = None if call.body is None else call.body.chunks()
    try:
        # The server may stop reading because it has already answered 413. Its response is read next.
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.request(call.method, _target(connection, url), body=body, headers=headers)
        return connection.getresponse()
    except socket.timeout as cause:
        raise timed_out(shown, request_id) from cause
    except OSError as cause:
        raise connection_lost(shown, request_id, cause) from cause
    except http.client.HTTPException as cause:
        raise not_http(shown, request_id) from cause


def _read_error_body(stream: Stream) -> bytes:
    body = b""
    try:
        for chunk in stream.chunks():
            body += chunk
            if len(body) > MAX_ERROR_BODY_BYTES:
                break
    except APIError:
        # The status alone is enough for an error.
        pass
    return body


def _connect(url: SplitResult, timeout: float, shown: str, request_id: str) -> http.client.HTTPConnection:
    connection = _connection(url, timeout)
    try:
        connection.connect()
    except socket.timeout as cause:
        connection.close()
        raise connect_timed_out(shown, request_id) from cause
    except (OSError, http.client.HTTPException) as cause:
        connection.close()
        raise connect_failed(shown, request_id, cause) from cause
    return connection


def _connection(url: SplitResult, timeout: float) -> http.client.HTTPConnection:
    """Creates a connection to the server, or to the proxy that the environment configures for it."""
    host = url.hostname or ""
    proxy = _proxy(url.scheme, host)
    near_host, near_port = (proxy.hostname or "", proxy.port) if proxy else (host, url.port)
    if url.scheme == "http":
        plain = http.client.HTTPConnection(near_host, near_port, timeout=timeout)
        plain.via_proxy = proxy is not None  # type: ignore[attr-defined]
        return plain
    secure = http.client.HTTPSConnection(near_host, near_port, timeout=timeout, context=ssl.create_default_context())
    if proxy:
        secure.set_tunnel(host, url.port, headers=_proxy_headers(proxy))
    return secure


def _proxy(scheme: str, host: str) -> Optional[SplitResult]:
    if host in ("localhost", "::1") or host.startswith("127.") or proxy_bypass(host):
        return None
    proxy = getproxies().get(scheme)
    return urlsplit(proxy if "://" in proxy else f"http://{proxy}") if proxy else None


def _proxy_headers(proxy: SplitResult) -> dict[str, str]:
    if not proxy.username:
        return {}
    credentials = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}".encode()
    return {"Proxy-Authorization": "Basic " + base64.b64encode(credentials).decode("ascii")}


def _target(connection: http.client.HTTPConnection, url: SplitResult) -> str:
    if getattr(connection, "via_proxy", False):
        return url.geturl()
    return url.path + (f"?{url.query}" if url.query else "")
