"""Chats in a home, put there by Hermes Agent 0.19 itself, which this interpreter has installed.

    chats.py write            fills the empty home $HERMES_HOME
    chats.py write-bare       puts a session there that knows nothing of its chat, and prints its id
    chats.py say KEY TEXT     adds what a person says in a chat, and prints the message's id
"""

import json
import os
import sys
import time
from pathlib import Path

from hermes_state import SessionDB

HOME = Path(os.environ["HERMES_HOME"])


def open_chat(database, session, source, key, chat, **origin):
    """A session of the gateway, as it is after its first message."""
    kind = origin.get("chat_type", "dm")
    thread = origin.get("thread_id")
    peer = {"user_id": origin.get("user_id"), "session_key": key, "chat_id": chat, "chat_type": kind,
            "thread_id": thread}
    database.create_session(session, source, model="some/model", **peer)
    name = origin.pop("display_name", None)
    whole = {"platform": source, "chat_id": chat, "chat_name": None, "chat_type": kind, "user_id": None,
             "user_name": None, "thread_id": thread, "chat_topic": None, **origin}
    database.record_gateway_session_peer(session, source=source, display_name=name, origin_json=json.dumps(whole),
                                         **peer)
    time.sleep(0.01)


def write_dm(database):
    session = "20260101_010101_0badcafe"
    open_chat(database, session, "telegram", "agent:main:telegram:dm:1", "1", display_name="Ann", chat_name="Ann A.",
              user_name="ann", user_id="1")
    say = lambda role, content=None, **more: database.append_message(session, role, content, **more)
    say("user", "first, and put aside by a compaction", timestamp=1000.5)
    say("assistant", "second, which is kept", timestamp=1001.5)
    database.archive_and_compact(session, [
        {"role": "user", "content": "[what was said before]", "timestamp": 1002.25},
        {"role": "assistant", "content": "second, which is kept", "timestamp": 1001.5},
    ])
    say("user", "taken back")
    taken = say("user", "taken back as well")
    say("assistant", "an answer to that")
    database.rewind_to_message(session, taken)
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    say("assistant", None, tool_calls=[call], finish_reason="tool_calls")
    say("tool", "a result that names MEDIA:/tmp/result.png", tool_name="f", tool_call_id="c1")
    say("assistant", "")
    say("user", "大别山 😀 \0 and half a pair: \ud83d")
    say("user", "😀" * 2500)
    say("assistant", "see MEDIA:/a/b.png and MEDIA: /c.ogg\nand MEDIA:")
    say("user", [
        {"type": "text", "text": "one"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        {"type": "image_url", "image_url": "https://example.com/not-an-object.png"},
        {"type": "image_url", "image_url": {"url": ""}},
        {"type": "image", "url": "https://example.com/a.png"},
        {"type": "image", "source": {"url": "https://example.com/b.png"}},
        {"type": "image", "source": {}},
        {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
        {"no": "type"},
        "no part",
        {"type": "text", "text": "two MEDIA:/d.pdf"},
    ])
    say("user", [{"type": "image_url", "image_url": {"url": "https://example.com/alone.png"}}])
    say("assistant", "observed", observed=True, api_content="not for display", platform_message_id="77")
    database.update_token_counts(session, input_tokens=120, output_tokens=34, model="some/model")


def write_others(database):
    open_chat(database, "20260101_010102_00000002", "discord", "agent:main:discord:thread:20:21:5", "20",
              chat_type="thread", thread_id="21", chat_name="Guild / #general", user_name="Bob", user_id="5",
              guild_id="9", scope_id="9")
    database.append_message("20260101_010102_00000002", "user", "in a thread", timestamp=2000.123456)
    # Nothing said yet, and no names.
    open_chat(database, "20260101_010103_00000003", "telegram", "agent:main:telegram:group:-100:7", "-100",
              chat_type="group", user_id="7")
    # Only columns, as older versions left them.
    database.create_session("20260101_010104_00000004", "slack", session_key="agent:main:slack:group:C012345678:U1",
                            chat_id="C012345678", chat_type="group", user_id="U1")
    database.append_message("20260101_010104_00000004", "assistant", "no origin", timestamp=3000)
    # Begun anew: the old session shows no longer.
    open_chat(database, "20260101_010105_00000005", "telegram", "agent:main:telegram:dm:2", "2", chat_name="Old")
    database.append_message("20260101_010105_00000005", "user", "before the reset")
    database.end_session("20260101_010105_00000005", "session_reset")
    open_chat(database, "20260101_010106_00000006", "telegram", "agent:main:telegram:dm:2", "2", chat_name="New")
    database.append_message("20260101_010106_00000006", "user", "after the reset")
    # Ended for good.
    open_chat(database, "20260101_010107_00000007", "telegram", "agent:main:telegram:dm:3", "3", chat_name="Gone")
    database.append_message("20260101_010107_00000007", "user", "goodbye")
    database.end_session("20260101_010107_00000007", "idle")
    # Not of the gateway.
    database.create_session("20260101_010108_abcdef", "cli")
    database.append_message("20260101_010108_abcdef", "user", "at the terminal")


def write():
    database = SessionDB()
    write_dm(database)
    write_others(database)
    database.close()


def write_bare():
    database = SessionDB()
    print(database.create_session("20260101_010101_0badcafe", "telegram"))
    database.append_message("20260101_010101_0badcafe", "user", "long ago, with MEDIA:/a.png")
    database.close()


def say(key, text):
    database = SessionDB()
    (session,) = [row["id"] for row in database.list_gateway_sessions() if row["session_key"] == key]
    print(database.append_message(session, "user", text))
    database.close()


if __name__ == "__main__":
    {"write": write, "write-bare": write_bare, "say": say}[sys.argv[1]](*sys.argv[2:])
