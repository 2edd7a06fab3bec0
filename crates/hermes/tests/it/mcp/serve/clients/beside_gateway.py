"""Waits at the bridge for a message of a chat with the Python SDK, and sends one to a target.

beside_gateway.py TARGET TEXT

Prints the event that it heard as one object.
"""

import asyncio
import json
import os
import sys

from mcp import Client, StdioServerParameters

WAIT_MS = 60_000


async def call(client, tool, arguments):
    called = await client.call_tool(tool, arguments)
    assert not called.is_error, called
    return json.loads(called.content[0].text)


async def main():
    target, text = sys.argv[1:]
    passed = ["HERMES_HOME", "TELEGRAM_BOT_TOKEN", "TELEGRAM_BASE_URL"]
    server = StdioServerParameters(
        command=os.environ["BRIDGE"],
        args=["mcp", "serve"],
        env={name: os.environ[name] for name in passed},
    )
    async with Client(server) as client:
        heard = await call(client, "events_wait", {"timeout_ms": WAIT_MS})
        sent = await call(client, "messages_send", {"target": target, "message": text})
        assert sent["success"] is True, sent
        print(json.dumps(heard["event"]))


asyncio.run(main())
