"""Calls tools of a Hub with the Python SDK and prints what came back as one object.

python.py MODE URL TOKEN CALLS, where CALLS is a JSON list of tools and their arguments
"""

import asyncio
import json
import sys

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client


async def report(client, calls):
    tools = await client.list_tools()
    answers = []
    for tool, arguments in calls:
        called = await client.call_tool(tool, arguments)
        answers.append(
            {
                "texts": [item.text for item in called.content],
                "structured": called.structured_content,
                "isError": called.is_error,
            }
        )
    return {
        "version": client.protocol_version,
        "tools": [tool.name for tool in tools.tools],
        "answers": answers,
    }


async def main():
    mode, place, token, calls = sys.argv[1:]
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=headers, trust_env=False) as http:
        async with Client(streamable_http_client(place, http_client=http), mode=mode) as client:
            print(json.dumps(await report(client, json.loads(calls))))


asyncio.run(main())
