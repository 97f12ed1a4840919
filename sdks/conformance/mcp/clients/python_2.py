"""The official Python client of the second generation, which speaks the protocol without sessions where it can."""

import httpx2
import mcp_types as types
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from remote import plain, serve


class Session:
    def __init__(self, client):
        self._client = client

    def about(self):
        client = self._client
        return {
            "protocol": client.protocol_version,
            "serverInfo": plain(client.server_info),
            "capabilities": plain(client.server_capabilities),
            "instructions": client.instructions,
        }

    async def cancel(self, task):
        task.cancel()

    async def list_tools(self):
        return plain(await self._client.list_tools(cache_mode="refresh"))

    async def call_tool(self, name, arguments, progress=None):
        return plain(await self._client.call_tool(name, arguments, progress_callback=progress))

    async def list_resources(self):
        return plain(await self._client.list_resources(cache_mode="refresh"))

    async def list_resource_templates(self):
        return plain(await self._client.list_resource_templates(cache_mode="refresh"))

    async def read_resource(self, uri):
        return plain(await self._client.read_resource(uri, cache_mode="refresh"))

    async def request(self, method, params):
        request = types.Request[dict, str](method=method, params=params)
        return await self._client.session.send_request(request, Anything)


class RefusedError(Exception):
    """This client keeps the status of HTTP to itself."""

    def __init__(self, response):
        super().__init__(f"HTTP {response.status_code}")
        self.response = response


class Anything:
    """Takes a result as it came."""

    @staticmethod
    def model_validate(raw, **_):
        return raw


async def connect(stack, how):
    refusals = []
    server = await _server(stack, how, refusals)
    try:
        return Session(await stack.enter_async_context(Client(server)))
    except Exception as error:
        if refusals:
            raise RefusedError(refusals[-1]) from error
        raise


async def _server(stack, how, refusals):
    async def look_at(response):
        if response.is_error:
            refusals.append(response)

    if "url" in how:
        hooks = {"response": [look_at]}
        client = httpx2.AsyncClient(headers=how["headers"], timeout=30, event_hooks=hooks)
        await stack.enter_async_context(client)
        return streamable_http_client(how["url"], http_client=client)
    return StdioServerParameters(**how)


if __name__ == "__main__":
    serve(connect)
