"""Reads and writes the token files of the server `remote` with the code of Hermes Agent, and prints one object.

    tokens.py read ""
    tokens.py renew RESOURCE
"""

import asyncio
import json
import sys
import urllib.parse
import urllib.request

from mcp.shared.auth import OAuthToken
from tools.mcp_oauth import HermesTokenStorage

storage = HermesTokenStorage("remote")


def plain(model):
    return model and model.model_dump(mode="json", exclude_none=True)


async def read(_argument):
    return {
        "tokens": plain(await storage.get_tokens()),
        "client": plain(await storage.get_client_info()),
        "metadata": plain(storage.load_oauth_metadata()),
    }


async def renew(resource):
    tokens, client = await storage.get_tokens(), await storage.get_client_info()
    form = {
        "grant_type": "refresh_token",
        "refresh_token": tokens.refresh_token,
        "client_id": client.client_id,
        "resource": resource,
    }
    if client.client_secret:
        form["client_secret"] = client.client_secret
    endpoint = str(storage.load_oauth_metadata().token_endpoint)
    body = urllib.parse.urlencode(form).encode()
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(endpoint, body) as reply:
        renewed = OAuthToken.model_validate(json.load(reply))
    await storage.set_tokens(renewed)
    return plain(renewed)


verb, argument = sys.argv[1:]
print(json.dumps(asyncio.run({"read": read, "renew": renew}[verb](argument))))
