"""The session store of Hermes Agent 0.19 at work: this interpreter has the package installed.

    hermes_agent.py create PATH        makes a database with conversations of every kind
    hermes_agent.py dump PATH          prints all sessions and messages as the package reads them
    hermes_agent.py list PATH          prints the conversations it would show
    hermes_agent.py continue PATH ID   reads a conversation, goes on with it, and prints what it read
    hermes_agent.py compact PATH ID    sums up a conversation
    hermes_agent.py search PATH TEXT   prints the ids of the messages it finds
"""

import json
import sys
from pathlib import Path

from hermes_state import SessionDB

CHAT = "20260101_010101_0badcafe"
PICTURE = [
    {"type": "text", "text": "half \ud83d of it"},
    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
]


def create(database):
    origin = {"platform": "telegram", "chat_id": "1", "chat_name": "Ann", "chat_type": "dm", "user_id": "1",
              "user_name": None, "thread_id": None, "chat_topic": None}
    peer = {"user_id": "1", "session_key": "agent:main:telegram:dm:1", "chat_id": "1", "chat_type": "dm"}
    database.create_session(CHAT, "telegram", model="some/model", model_config={"temperature": 0.5},
                            system_prompt="Be kind.", cwd="/tmp", **peer)
    database.record_gateway_session_peer(CHAT, source="telegram", display_name="Ann's chat",
                                         origin_json=json.dumps(origin), **peer)
    say = lambda role, content=None, **more: database.append_message(CHAT, role, content, **more)
    say("user", "an early word about 大别山项目", platform_message_id="77", timestamp=1000.25)
    say("assistant", "an early answer", timestamp=1001.5)
    database.archive_and_compact(CHAT, [
        {"role": "user", "content": "[summary]"},
        {"role": "assistant", "content": "an early answer", "timestamp": 1001.5},
    ])
    taken = say("user", "a regretted word")
    say("assistant", "a regretted answer")
    database.rewind_to_message(CHAT, taken)
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}, "extra": "\ud83d"}
    say("assistant", None, tool_calls=[call], finish_reason="tool_calls", reasoning="thought",
        reasoning_content="thought, too", reasoning_details=[{"type": "x"}], codex_reasoning_items=[{"id": "r"}],
        codex_message_items=[{"id": "m"}], token_count=12)
    say("tool", "a\0b 😀", tool_name="f", tool_call_id="c1", effect_disposition="none")
    say("user", PICTURE)
    say("user", {"not": "a list"})
    say("user", "")
    say("user", "x" * 1_000_000, observed=True, api_content="shorter")
    database.update_token_counts(CHAT, input_tokens=10, output_tokens=2, cache_read_tokens=3, cache_write_tokens=4,
                                 reasoning_tokens=5, model="some/model", api_call_count=1)
    database.set_session_title(CHAT, "A title")

    database.create_session("20260101_010102_abcdef", "cli")
    database.append_message("20260101_010102_abcdef", "user", "at the terminal")
    database.end_session("20260101_010102_abcdef", "compression")
    database.create_session("20260101_010103_abcdef", "cli", parent_session_id="20260101_010102_abcdef")
    database.append_message("20260101_010103_abcdef", "user", "going on")
    database.create_session("cron_job_20260101_010104", "cron")
    database.set_session_archived("cron_job_20260101_010104", True)


MESSAGE = ["id", "role", "content", "tool_call_id", "tool_name", "tool_calls", "effect_disposition", "finish_reason",
           "reasoning", "reasoning_content", "reasoning_details", "codex_reasoning_items", "codex_message_items",
           "timestamp", "token_count", "platform_message_id", "observed", "api_content", "active", "compacted"]
SESSION = ["id", "source", "user_id", "session_key", "chat_id", "chat_type", "thread_id", "display_name", "origin_json",
           "model", "model_config", "system_prompt", "parent_session_id", "started_at", "ended_at", "end_reason",
           "message_count", "tool_call_count", "api_call_count", "input_tokens", "output_tokens", "cache_read_tokens",
           "cache_write_tokens", "reasoning_tokens", "cwd", "title", "rewind_count", "archived"]
# Numbers with a fraction are printed as texts, which lose nothing on the way.
IS_REAL = {"timestamp", "started_at", "ended_at"}
IS_JSON = {"reasoning_details", "codex_reasoning_items", "codex_message_items", "origin_json", "model_config"}


def values(row, columns):
    def read(column):
        value = row[column]
        if value is None:
            return None
        if column in IS_REAL:
            return repr(value)
        return whole(json.loads(value) if column in IS_JSON else value)

    return {column: read(column) for column in columns}


def whole(value):
    """Half a pair of surrogates cannot be printed."""
    if isinstance(value, str):
        return "".join("\ufffd" if "\ud800" <= letter <= "\udfff" else letter for letter in value)
    if isinstance(value, list):
        return [whole(item) for item in value]
    if isinstance(value, dict):
        return {key: whole(item) for key, item in value.items()}
    return value


def dump(database):
    ids = sorted(row["id"] for row in database.list_sessions_rich(limit=1000, include_children=True,
                                                                  include_archived=True,
                                                                  project_compression_tips=False))
    return [
        {
            "session": values(database.get_session(session), SESSION),
            "messages": [values(row, MESSAGE) for row in database.get_messages(session, include_inactive=True)],
        }
        for session in ids
    ]


def show(database):
    return {
        "sessions": [
            [row["id"], row["message_count"], row["preview"]] for row in database.list_sessions_rich(limit=1000)
        ],
        "chats": [
            [row["session_key"], row["id"], row["display_name"], json.loads(row["origin_json"])["chat_name"]]
            for row in database.list_gateway_sessions()
        ],
    }


def go_on(database, session):
    before = [whole([turn["role"], turn["content"]]) for turn in database.get_messages_as_conversation(session)]
    database.append_message(session, "user", PICTURE)
    database.append_message(session, "assistant", "from Python")
    return before


def compact(database, session):
    kept = database.get_messages_as_conversation(session)[-1]
    return database.archive_and_compact(session, [{"role": "user", "content": "[summary in Python]"}, kept])


def search(database, text):
    return sorted(hit["id"] for hit in database.search_messages(text))


if __name__ == "__main__":
    act = {"create": create, "dump": dump, "list": show, "continue": go_on, "compact": compact, "search": search}
    opened = SessionDB(Path(sys.argv[2]))
    print(json.dumps(act[sys.argv[1]](opened, *sys.argv[3:])))
    opened.close()
