"""Sending calls and waiting for them, on http.client. One connection a call, so a client is safe to share."""

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

from ._call import MAX_REFUSAL_BYTES, Answer, Call, read_answer, refusal
from ._endpoint import CHUNK_BYTES, Endpoint, new_id
from ._failures import broken, connects_late, not_http, shown_url, timed_out, unreachable
from ._retry import pause_before_retry
from .errors import APIError

T = TypeVar("T")


class Stream:
    """A success whose body is still arriving."""

    def __init__(self, response: http.client.HTTPResponse, url: str, request_id: str, sock: socket.socket) -> None:
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.request_id = self.headers.get("x-request-id", request_id)
        self._response = response
        self._url = url
        self._sock = sock
        self._missing = response.length
        # http.client takes the end of a connection for the end of a head. Only the end of the connection ends such a
        # body, and one without a byte is therefore no answer.
        self._owed = response.length is None and not response.chunked

    def wait_at_most(self, seconds: Optional[float]) -> None:
        self._sock.settimeout(seconds)

    def chunk(self) -> bytes:
        """The next piece, empty at the end. A body cut short is an error, not an end."""
        if self._missing == 0:
            return b""
        try:
            data = self._response.read1(CHUNK_BYTES)
        except socket.timeout as cause:
            raise timed_out(self._url, self.request_id) from cause
        except (OSError, http.client.HTTPException) as cause:
            raise broken(self._url, self.request_id, cause) from cause
        if self._owed and not data:
            raise broken(self._url, self.request_id, "it was closed in the middle of the answer")
        self._owed = False
        if self._missing is not None:
            self._missing -= len(data)
            if not data:
                raise broken(self._url, self.request_id, f"{self._missing} bytes are missing")
        return data

    def chunks(self) -> Iterator[bytes]:
        while data := self.chunk():
            yield data


class Sender:
    """What the resources of the synchronous client are built on."""

    _endpoint: Endpoint

    def _send(self, call: Call[T]) -> T:
        """Sends a call and reads its answer, again where that is harmless."""

        def attempt(request_id: str) -> T:
            with self._open(call, request_id) as stream:
                answer = Answer(stream.status, stream.headers, b"".join(stream.chunks()))
            return read_answer(call, answer, request_id)

        return self._insist(call, attempt)

    def _download(self, call: Call[Any], file: IO[bytes]) -> None:
        """Sends a call and writes its answer's body into a file, from the beginning again if it is cut."""

        def attempt(request_id: str) -> None:
            file.seek(0)
            file.truncate()
            with self._open(call, request_id) as stream:
                for chunk in stream.chunks():
                    file.write(chunk)

        self._insist(call, attempt)

    def _insist(self, call: Call[Any], attempt: Callable[[str], T]) -> T:
        request_id = new_id()
        for count in range(self._endpoint.retries + 1):
            try:
                return attempt(request_id)
            except APIError as error:
                pause = pause_before_retry(call, error, count, self._endpoint.retries)
                if pause is None:
                    raise
                time.sleep(pause)
        raise AssertionError("the last attempt either returns or raises")

    @contextmanager
    def _open(self, call: Call[Any], request_id: str) -> Iterator[Stream]:
        """Sends a call once. What comes back is a success; everything else is raised."""
        url = self._endpoint.url(call)
        shown = shown_url(call, url)
        connection = _connect(url, self._endpoint.connect_timeout(call), shown, request_id)
        try:
            sock = connection.sock
            sock.settimeout(self._endpoint.idle_timeout(call))
            headers = self._endpoint.headers(call, request_id)
            with _exchange(connection, call, url, headers, shown) as response:
                stream = Stream(response, shown, request_id, sock)
                if not 200 <= stream.status < 300 and stream.status not in call.answers:
                    raise refusal(stream.status, stream.headers, _beginning(stream), request_id)
                yield stream
        finally:
            connection.close()


def _exchange(
    connection: http.client.HTTPConnection, call: Call[Any], url: SplitResult, headers: dict[str, str], shown: str
) -> http.client.HTTPResponse:
    request_id = headers["X-Request-ID"]
    body = None if call.body is None else call.body.chunks()
    try:
        # It may stop listening to us because it has said already that this is too large.
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.request(call.method, _target(connection, url), body=body, headers=headers)
        return connection.getresponse()
    except socket.timeout as cause:
        raise timed_out(shown, request_id) from cause
    except OSError as cause:
        raise broken(shown, request_id, cause) from cause
    except http.client.HTTPException as cause:
        raise not_http(shown, request_id) from cause


def _beginning(stream: Stream) -> bytes:
    body = b""
    try:
        for chunk in stream.chunks():
            body += chunk
            if len(body) > MAX_REFUSAL_BYTES:
                break
    except APIError:
        # The status alone says enough.
        pass
    return body


def _connect(url: SplitResult, timeout: float, shown: str, request_id: str) -> http.client.HTTPConnection:
    connection = _connection(url, timeout)
    try:
        connection.connect()
    except socket.timeout as cause:
        connection.close()
        raise connects_late(shown, request_id) from cause
    except (OSError, http.client.HTTPException) as cause:
        connection.close()
        raise unreachable(shown, request_id, cause) from cause
    return connection


def _connection(url: SplitResult, timeout: float) -> http.client.HTTPConnection:
    """A connection to the server, or to the proxy that the environment names for it."""
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
