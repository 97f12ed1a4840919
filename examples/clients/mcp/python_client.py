"""Finds a skill on a Skillbox server, reads its instructions and runs it, over MCP. Needs: pip install "mcp>=2"

With the first generation of that package, see the client in sdks/conformance/mcp/clients/python_1.py.
"""

import asyncio
import os

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

URL = os.environ.get("SKILLBOX_SERVER_URL", "http://localhost:8080") + "/mcp"
KEY = {"Authorization": f"Bearer {os.environ['SKILLBOX_API_KEY']}"}
POINTS = [{"label": "Q1", "value": 3}, {"label": "Q2", "value": 5}]


async def main():
    async with (
        httpx2.AsyncClient(headers=KEY, timeout=60) as http,
        Client(streamable_http_client(URL, http_client=http)) as client,
    ):
        listed = await client.call_tool("list_skills")
        print("skills:", ", ".join(skill["name"] for skill in listed.structured_content["skills"]))
        loaded = await client.call_tool("load_skill", {"skill": "svg-chart"})
        print(loaded.structured_content["instructions"].splitlines()[0])
        arguments = {"skill": "svg-chart", "input": {"title": "Sales", "points": POINTS}}
        result = await client.call_tool("run_skill_script", arguments, progress_callback=show)
        for block in result.content:
            print(f"{block.name}: {block.uri}" if block.type == "resource_link" else block.text)


async def show(progress, total, message):
    print("…", message)


asyncio.run(main())
