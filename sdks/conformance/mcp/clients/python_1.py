"""The official Python client of the first generation, which speaks the protocols with sessions."""

from contextlib import contextmanager

import anyio
import mcp.types as types
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client
from remote import plain, serve


class Session:
    def __init__(self):
        self._running = None

    async def open(self, stack, how):
        self._session = await stack.enter_async_context(
            ClientSession(*await _streams(stack, how), message_handler=self._on_message)
        )
        self._initialized = await self._session.initialize()
        return self

    def about(self):
        about = plain(self._initialized)
        return {**about, "protocol": about["protocolVersion"]}

    async def _on_message(self, message):
        progress = getattr(message, "root", None)
        if isinstance(progress, types.ProgressNotification):
            # This client names progress by the request.
            self._running = progress.params.progressToken

    async def cancel(self, task):
        params = types.CancelledNotificationParams(requestId=self._running, reason="enough")
        await self._session.send_notification(types.ClientNotification(types.CancelledNotification(params=params)))
        # The protocol sends no answer to what was cancelled.
        task.cancel()

    async def list_tools(self):
        return plain(await self._session.list_tools())

    async def call_tool(self, name, arguments, progress=None):
        return plain(await self._session.call_tool(name, arguments, progress_callback=progress))

    async def list_resources(self):
        return plain(await self._session.list_resources())

    async def list_resource_templates(self):
        return plain(await self._session.list_resource_templates())

    async def read_resource(self, uri):
        return plain(await self._session.read_resource(uri))

    async def request(self, method, params):
        return plain(
            await self._session.send_request(types.Request[dict, str](method=method, params=params), types.Result)
        )


async def _streams(stack, how):
    if "url" in how:
        client = await stack.enter_async_context(create_mcp_http_client(headers=how["headers"]))
        return (await stack.enter_async_context(streamable_http_client(how["url"], http_client=client)))[:2]
    return await stack.enter_async_context(stdio_client(StdioServerParameters(**how)))


@contextmanager
def _late_answers_ignored():
    """This client breaks when an answer arrives while it closes."""
    try:
        yield
    except* anyio.BrokenResourceError:
        pass


async def connect(stack, how):
    stack.enter_context(_late_answers_ignored())
    return await Session().open(stack, how)


if __name__ == "__main__":
    serve(connect)
