"""Calls the bridge with the Python SDK and prints what it found as one object.

python.py MODE stdio|URL
"""

import asyncio
import json
import os
import sys

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

KEY = "agent:main:telegram:dm:1"


async def report(client):
    tools = await client.list_tools()
    called = await client.call_tool("messages_read", {"session_key": KEY})
    wrong = await client.call_tool("messages_read", {"session_key": 5})
    resources = await client.list_resources()
    prompts = await client.list_prompts()
    waited = await client.call_tool("events_wait", {"timeout_ms": 10})
    assert not waited.is_error, waited
    print(
        json.dumps(
            {
                "version": client.protocol_version,
                "tools": [tool.name for tool in tools.tools],
                "text": called.content[0].text,
                "structured": called.structured_content,
                "refused": wrong.is_error,
                "resources": [str(resource.uri) for resource in resources.resources],
                "prompts": [prompt.name for prompt in prompts.prompts],
            }
        )
    )


async def main():
    mode, place = sys.argv[1:]
    if place == "stdio":
        server = StdioServerParameters(
            command=os.environ["BRIDGE"],
            args=["mcp", "serve"],
            env={"HERMES_HOME": os.environ["HERMES_HOME"]},
        )
        async with Client(server, mode=mode) as client:
            await report(client)
    else:
        headers = {"Authorization": "Bearer t0ken"}
        async with httpx2.AsyncClient(headers=headers, trust_env=False) as http:
            async with Client(streamable_http_client(place, http_client=http), mode=mode) as client:
                await report(client)


asyncio.run(main())
