"""Calls methods of the Web API with slack_sdk and prints what came of it, as one object."""

import json
import sys

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError
from slack_sdk.models.blocks import MarkdownBlock

base_url, bot_token, app_token, user, channel = sys.argv[1:6]
web = WebClient(token=bot_token, base_url=base_url + "/")


def refusal(call, **arguments):
    try:
        call(**arguments)
    except SlackApiError as error:
        return {name: error.response.get(name) for name in ("error", "needed") if error.response.get(name)}
    return None


names = []
for page in web.users_conversations(types="public_channel,private_channel", exclude_archived=True, limit=2):
    names.extend(found["name"] for found in page["channels"])

direct = web.conversations_open(users=user)["channel"]["id"]
posted = [web.chat_postMessage(channel=direct, text=f"{number}")["ts"] for number in range(3)]
reply = web.chat_postMessage(channel=direct, text="in a thread", thread_ts=posted[0])
history = web.conversations_history(channel=direct, oldest=posted[0])
replies = web.conversations_replies(channel=direct, ts=posted[0])
web.chat_delete(channel=direct, ts=posted[2])

table = MarkdownBlock(text="| a | b |\n|---|---|\n| **1** | 2 |")
web.chat_postMessage(channel=channel, text="a table", blocks=[table])

print(
    json.dumps(
        {
            "who": web.auth_test()["user_id"],
            "channels": names,
            "name": web.users_info(user=user)["user"]["profile"]["display_name"],
            "history": [message["text"] for message in history["messages"]],
            "replies": [message["text"] for message in replies["messages"]],
            "members": user in web.conversations_members(channel=direct)["members"],
            "url": web.apps_connections_open(app_token=app_token)["url"].startswith("ws://"),
            "wrong token": refusal(WebClient(token="xoxb-wrong", base_url=base_url + "/").auth_test),
            "wrong kind of token": refusal(web.apps_connections_open, app_token=bot_token),
            "gone": refusal(web.chat_update, channel=direct, ts=posted[2], text="x"),
            "unknown user": refusal(web.users_info, user="U404"),
            "no channel": refusal(web.chat_postMessage, channel="general", text="x"),
            "nothing": refusal(web.api_call, api_method="chat.nothing"),
            "no scope": refusal(web.reactions_add, channel=direct, timestamp=posted[0], name="eyes"),
            "bad blocks": refusal(web.chat_postMessage, channel=direct, text="x", blocks=[{"type": "section"}]),
            "long edit": refusal(web.chat_update, channel=direct, ts=posted[1], text="x" * 4_001),
            "long Markdown": refusal(
                web.chat_postMessage, channel=direct, text="x", blocks=[MarkdownBlock(text="x" * 7_000)] * 2
            ),
            "no recipient": refusal(web.chat_startStream, channel=channel, thread_ts="1.0"),
            "not a stream": refusal(web.chat_appendStream, channel=direct, ts=posted[0], markdown_text="x"),
        }
    )
)
