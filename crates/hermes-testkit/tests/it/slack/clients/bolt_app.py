"""A bot on slack_bolt in Socket Mode."""

import sys

from slack_bolt import App
from slack_bolt.adapter.socket_mode import SocketModeHandler
from slack_sdk import WebClient

base_url, bot_token, app_token = sys.argv[1:4]
app = App(client=WebClient(token=bot_token, base_url=base_url + "/"))


@app.event("app_mention")
def mentioned(event, say):
    say(
        text="Shall I?",
        thread_ts=event.get("thread_ts") or event["ts"],
        blocks=[
            {"type": "section", "text": {"type": "mrkdwn", "text": "Shall I?"}},
            {
                "type": "actions",
                "elements": [
                    {"type": "button", "action_id": "go", "text": {"type": "plain_text", "text": "Go"}, "value": "now"}
                ],
            },
        ],
    )


@app.event("message")
def written(event, say):
    if event.get("channel_type") == "im" and "bot_id" not in event and "subtype" not in event:
        say(f"you wrote: {event['text']}")


@app.action("go")
def pressed(ack, body, client, action):
    ack()
    client.chat_update(
        channel=body["channel"]["id"], ts=body["message"]["ts"], text=f"going {action['value']}", blocks=[]
    )


@app.command("/status")
def status(ack, command):
    ack(f"all well, {command['user_id']}")


@app.event("agent_session_stopped")
def stopped(event, client):
    client.chat_postMessage(channel=event["channel"], thread_ts=event["thread_ts"], text=f"stopped by {event['user']}")


handler = SocketModeHandler(app, app_token)
handler.connect()
sys.stdin.read()
handler.close()
