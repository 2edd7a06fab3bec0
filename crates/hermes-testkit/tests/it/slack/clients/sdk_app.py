"""A bot on slack_sdk: the Web API and Socket Mode, without a framework. People make it do things by writing to it."""

import logging
import sys
import urllib.request

from slack_sdk import WebClient
from slack_sdk.http_retry.builtin_handlers import RateLimitErrorRetryHandler
from slack_sdk.models.messages.chunk import MarkdownTextChunk, TaskUpdateChunk
from slack_sdk.socket_mode import SocketModeClient
from slack_sdk.socket_mode.response import SocketModeResponse

base_url, bot_token, app_token = sys.argv[1:4]
logging.basicConfig(level=logging.INFO)
web = WebClient(token=bot_token, base_url=base_url + "/")
web.retry_handlers.append(RateLimitErrorRetryHandler(max_retry_count=2))
own = web.auth_test()["user_id"]
seen = set()


def on_message(event):
    channel, ts, text = event["channel"], event["ts"], event.get("text", "")
    thread = event.get("thread_ts") or ts
    for file in event.get("files", []):
        request = urllib.request.Request(file["url_private"], headers={"Authorization": f"Bearer {bot_token}"})
        with urllib.request.urlopen(request) as response:
            content = response.read()
        web.files_upload_v2(
            channel=channel, thread_ts=thread, filename="copy.txt", content=content[::-1].decode(), initial_comment="a copy"
        )
    if "hello" in text:
        posted = web.chat_postMessage(channel=channel, thread_ts=thread, text="hi")
        web.chat_update(channel=channel, ts=posted["ts"], text="hi there")
        web.reactions_add(channel=channel, timestamp=ts, name="wave")
    elif text == "buttons":
        button = {"type": "button", "action_id": "yes", "text": {"type": "plain_text", "text": "Yes"}, "value": "v1"}
        section = {"type": "section", "text": {"type": "mrkdwn", "text": "*Sure?*"}}
        web.chat_postMessage(
            channel=channel, text="Sure?", blocks=[section, {"type": "actions", "elements": [button]}]
        )
    elif text == "stream":
        stream = web.chat_stream(
            channel=channel, thread_ts=thread, recipient_team_id=event["team"], recipient_user_id=event["user"], buffer_size=4
        )
        stream.append(markdown_text="one ")
        stream.append(chunks=[TaskUpdateChunk(id="t", title="search", status="in_progress")])
        stream.append(chunks=[MarkdownTextChunk(text="two "), TaskUpdateChunk(id="t", title="search", status="complete")])
        stream.stop(markdown_text="three")
    elif text == "limited":
        web.chat_postMessage(channel=channel, text="after the limit")


def on_request(client, request):
    client.send_socket_mode_response(SocketModeResponse(envelope_id=request.envelope_id))
    payload = request.payload
    if request.type == "events_api":
        event = payload["event"]
        if event["type"] == "message" and event.get("user") != own and "message" not in event and event["ts"] not in seen:
            seen.add(event["ts"])
            on_message(event)
    elif request.type == "interactive":
        action = payload["actions"][0]
        web.chat_update(
            channel=payload["channel"]["id"],
            ts=payload["container"]["message_ts"],
            text=f"{payload['user']['id']} pressed {action['value']}",
        )
    elif request.type == "slash_commands":
        web.chat_postEphemeral(
            channel=payload["channel_id"], user=payload["user_id"], text=f"{payload['command']} {payload['text']}"
        )


client = SocketModeClient(app_token=app_token, web_client=web, ping_interval=1)
client.socket_mode_request_listeners.append(on_request)
client.connect()
sys.stdin.read()
client.close()
