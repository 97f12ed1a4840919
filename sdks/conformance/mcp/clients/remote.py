"""A client of MCP under remote control.

One line of JSON comes in for each thing to do: `{"id", "do", "with"}`. One goes out for its end, `{"id", "result"}` or
`{"id", "error"}`, and one for each piece of progress before that. `cancel` with the id of another is what a user does
who no longer waits.
"""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import AsyncExitStack


class Connection:
    """A session, opened and closed by one task, as the SDK's scopes demand."""

    def __init__(self, connect, how):
        self._closing = asyncio.Event()
        self._opened = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._hold(connect, how))

    async def _hold(self, connect, how):
        try:
            async with AsyncExitStack() as stack:
                session = await connect(stack, how)
                self._opened.set_result(session)
                await self._closing.wait()
        except BaseException as error:
            if self._opened.done():
                raise
            self._opened.set_exception(_cause(error))

    async def opened(self):
        return await self._opened

    async def close(self):
        self._closing.set()
        await self._task


class Remote:
    def __init__(self, connect):
        self._connect = connect
        self._connections = {}
        self._doing = {}

    async def serve(self):
        while line := await asyncio.to_thread(sys.stdin.readline):
            order = json.loads(line)
            self._doing[order["id"]] = asyncio.create_task(self._carry_out(order))

    async def _carry_out(self, order):
        identity = order["id"]
        try:
            _say({"id": identity, "result": await self._do(identity, order["do"], order.get("with", {}))})
        except asyncio.CancelledError:
            _say({"id": identity, "error": {"message": "cancelled by its user"}})
        except BaseException as error:
            _say({"id": identity, "error": _told(_cause(error))})

    async def _do(self, identity, what, given):
        if what == "connect":
            connection = Connection(self._connect, given)
            session = await connection.opened()
            self._connections[identity] = (connection, session)
            return session.about()
        if what == "cancel":
            _, session = self._connections[given["connection"]]
            return await session.cancel(self._doing[given["id"]])
        connection, session = self._connections[given.pop("connection")]
        if what == "close":
            return await connection.close()
        if given.pop("progress", False):
            given["progress"] = _reporter(identity)
        return await getattr(session, what)(**given)


def serve(connect):
    asyncio.run(Remote(connect).serve())


def plain(model):
    """A result with the names of the wire."""
    return model.model_dump(by_alias=True, mode="json", exclude_none=True)


def _reporter(identity):
    async def report(progress, total, message):
        _say({"id": identity, "progress": {"progress": progress, "total": total, "message": message}})

    return report


def _say(what):
    print(json.dumps(what), flush=True)


def _cause(error):
    """The error that the groups of the SDK's tasks wrap."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _told(error):
    response = getattr(error, "response", None)
    inner = getattr(error, "error", None)
    return {
        "kind": type(error).__name__,
        "message": str(error),
        "code": getattr(inner, "code", None),
        "status": getattr(response, "status_code", None),
    }
