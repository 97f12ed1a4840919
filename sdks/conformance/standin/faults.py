"""What can go wrong between a client and a server. Each function is the answer to any request below its name."""

import gzip
import io
import json
import tarfile
import threading
from collections import Counter

_attempts = Counter()
_lock = threading.Lock()


def drop(request):
    """Closes the connection without a word."""


def silent(request):
    """Never answers; goes away when the client does."""
    request.rfile.read(1)


def error(request):
    """Fails."""
    request.refuse(500, "internal", "Something failed on our side.")


def html(request):
    """Is not a Skillbox at all."""
    request.reply_bytes(200, b"<html>Welcome to nginx!</html>", "text/html")


def gateway(request):
    """A proxy whose server is gone; its error is not ours."""
    request.reply_bytes(502, b"<html>Bad Gateway</html>", "text/html")


def cut(request):
    """Promises a thousand bytes and sends a few."""
    request.reply_bytes(200, b'{"execution_id":"', "application/json", length=1000)


def headless(request):
    """Ends in the middle of the headers, before it could say how long the answer is."""
    request.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n")


def busy(request):
    """Is too busy twice, then answers."""
    attempts = _count(request)
    if attempts < 3:
        request.refuse(429, "too_busy", "Too many executions are waiting.", Retry_After="0")
    else:
        request.reply(200, _execution(attempts))


def starting(request):
    """Is not ready once, then answers."""
    attempts = _count(request)
    if attempts < 2:
        request.refuse(503, "not_ready", "The server is starting.", Retry_After="0")
    else:
        request.reply(200, _execution(attempts))


def retry_later(request):
    """Asks to come back in an hour, which nobody waits for."""
    request.refuse(429, "rate_limited", "Come back later.", Retry_After="3600")


def lossy(request):
    """Loses the first connection of every call, then answers."""
    attempts = _count(request)
    if attempts > 1:
        request.reply(200, _execution(attempts))


def stream(request):
    """Cuts a stream of events in the middle of one, and goes on where the reader says."""
    if not request.rest.endswith("/events"):
        return request.refuse(404, "not_found", "There is no such thing.")
    request.send_response(200)
    request.send_header("Content-Type", "text/event-stream")
    request.send_header("Connection", "close")
    request.end_headers()
    request.wfile.write(b"retry: 1\n\n: a comment\n\n")
    after = request.headers.get("Last-Event-ID")
    if after is None:
        _event(request, "state", "1", {"status": "running", "time": "2026-01-01T00:00:00Z"})
        _event(request, "log", "2", {"stream": "stdout", "time": "2026-01-01T00:00:01Z", "text": "one "})
        request.wfile.write(b'event: log\nid: 3\ndata: {"stream":"stdout","te')
    elif after == "2":
        _event(request, "weather", "3", "a kind nobody knows")
        _event(request, "log", "4", {"stream": "stdout", "time": "2026-01-01T00:00:02Z", "text": "två"})
    else:
        _event(request, "result", "5", {**_execution(1), "output": {"after": after}})


def dotdot(request):
    """Its archive leaves the directory."""
    _artifacts(request, _tar(tarfile.TarInfo("../escaped.txt")))


def absolute(request):
    """Its archive names a place on the machine."""
    _artifacts(request, _tar(tarfile.TarInfo("/tmp/skillbox-escaped.txt")))


def link(request):
    """Its archive holds a link, and a file that would follow it."""
    pointer = tarfile.TarInfo("out")
    pointer.type, pointer.linkname = tarfile.SYMTYPE, ".."
    _artifacts(request, _tar(pointer, tarfile.TarInfo("out/escaped.txt")))


def torn(request):
    """Its archive ends too early."""
    _artifacts(request, _tar(tarfile.TarInfo("whole.txt"))[:-12])


BEHAVIOURS = {
    behaviour.__name__: behaviour
    for behaviour in (
        drop, silent, error, html, gateway, cut, headless, busy, starting, retry_later, lossy, stream, dotdot, absolute,
        link, torn,
    )
}


def _count(request):
    """How often this call has come. Runs are told apart by their idempotency key: a client must keep it."""
    key = request.headers.get("Idempotency-Key") or request.headers.get("X-Request-ID")
    with _lock:
        _attempts[key] += 1
        return _attempts[key]


def _execution(attempts):
    return {
        "execution_id": "01990000-0000-7000-8000-000000000001",
        "status": "success",
        "output": {"attempts": attempts},
        "duration_ms": 1,
        "error": None,
    }


def _event(request, kind, event_id, data):
    request.wfile.write(f"event: {kind}\nid: {event_id}\ndata: {json.dumps(data)}\n\n".encode())
    request.wfile.flush()


def _artifacts(request, archive):
    if request.rest == "/archive":
        return request.reply_bytes(200, archive, "application/gzip")
    base = f"http://{request.headers['Host']}/{request.path.split('/')[1]}"
    request.reply(200, {**_execution(1), "files_url": f"{base}/archive", "files_list": ["escaped.txt"]})


def _tar(*entries):
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as archive:
        for entry in entries:
            content = b"" if entry.issym() else b"escaped"
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return gzip.compress(plain.getvalue())
