"""The official clients, each in a process of its own that does what it is told (clients/remote.py)."""

from __future__ import annotations

import base64
import itertools
import json
import os
import queue
import subprocess
import threading
from pathlib import Path

HERE = Path(__file__).parents[1]
#: Longer than anything but a hang.
TIMEOUT_SECONDS = 60


class ClientError(Exception):
    """What the client raised: `kind` is its own type, `code` the protocol's, `status` HTTP's."""

    def __init__(self, told):
        self.kind, self.code, self.status = told.get("kind"), told.get("code"), told.get("status")
        super().__init__(f"{told.get('message')} ({self.kind}, code {self.code}, status {self.status})")


class Doing:
    """Something a client has begun: its progress and its end arrive here."""

    def __init__(self, remote, identity):
        self._remote, self.id = remote, identity
        self._news = queue.Queue()

    def told(self, line):
        self._news.put(line)

    def next_progress(self):
        """The next piece of progress; an end that comes first is an error."""
        line = self._next()
        assert "progress" in line, f"it ended without progress: {line}"
        return line["progress"]

    def result(self):
        while "progress" in (line := self._next()):
            pass
        if "error" in line:
            raise ClientError(line["error"])
        return line["result"]

    def _next(self):
        try:
            return self._news.get(timeout=TIMEOUT_SECONDS)
        except queue.Empty:
            raise AssertionError(f"the client is silent; it wrote: {self._remote.complaints()}") from None


class Remote:
    """One program with an official client in it."""

    def __init__(self, command, log):
        self._log = log
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=HERE / "clients",
                text=True,
                encoding="utf-8",
            )
        self._ids = itertools.count(1)
        self._doing = {}
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self._process.stdout:
            told = json.loads(line)
            self._doing[told["id"]].told(told)
        for doing in self._doing.values():
            doing.told({"error": {"message": f"the client's program ended: {self.complaints()}"}})

    def begin(self, what, **given):
        doing = Doing(self, next(self._ids))
        self._doing[doing.id] = doing
        self._process.stdin.write(json.dumps({"id": doing.id, "do": what, "with": given}) + "\n")
        self._process.stdin.flush()
        return doing

    def connect(self, how):
        return Connection(self, how)

    def complaints(self):
        return self._log.read_text(encoding="utf-8", errors="replace")[-4000:]

    def end(self):
        self._process.stdin.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Connection:
    """A client that has connected; `about` is what it knows of the server."""

    def __init__(self, remote, how):
        self._remote = remote
        opening = remote.begin("connect", **how)
        self.about = opening.result()
        self._id = opening.id

    def begin(self, what, **given):
        return self._remote.begin(what, connection=self._id, **given)

    def do(self, what, **given):
        return self.begin(what, **given).result()

    def call(self, name, **arguments):
        return self.do("call_tool", name=name, arguments=arguments)

    def run(self, script, **arguments):
        """Runs a script of the workbench."""
        return self.call("run_skill_script", skill="workbench", script=f"scripts/{script}", **arguments)

    def begin_run(self, script, **arguments):
        """The same, with progress, and not waiting for the end."""
        given = {"skill": "workbench", "script": f"scripts/{script}", **arguments}
        return self.begin("call_tool", name="run_skill_script", arguments=given, progress=True)

    def cancel(self, doing):
        return self.do("cancel", id=doing.id)

    def close(self):
        self.do("close")


def command_of(name):
    """How the client of this name is started."""
    program = HERE / "clients" / name
    if name.startswith("typescript"):
        return ["node", f"{program}.mjs"]
    return [os.environ[f"SKILLBOX_MCP_{name.upper()}"], f"{program}.py"]


def text_of(result):
    """What a model reads of the answer to a tool call."""
    return "".join(block["text"] for block in result["content"] if block["type"] == "text")


def bytes_of(contents):
    """The bytes of a resource that was read."""
    return base64.b64decode(contents["blob"]) if "blob" in contents else contents["text"].encode()
