"""A session database as Hermes Agent 0.19 makes it, and a look into one, with nothing but Python's SQLite.

    reference.py create PATH      makes a database of schema 22 with some conversations
    reference.py describe PATH    prints columns, indexes and triggers as JSON
    reference.py continue PATH ID adds a message to a session, as another program would
    reference.py dump PATH ID     prints the live messages of a session as JSON
"""

import json
import sqlite3
import sys

TABLES = """
CREATE TABLE schema_version (version INTEGER NOT NULL);
CREATE TABLE sessions (
    id TEXT PRIMARY KEY, source TEXT NOT NULL, user_id TEXT, session_key TEXT, chat_id TEXT, chat_type TEXT,
    thread_id TEXT, display_name TEXT, origin_json TEXT, expiry_finalized INTEGER DEFAULT 0, model TEXT,
    model_config TEXT, system_prompt TEXT, parent_session_id TEXT, started_at REAL NOT NULL, ended_at REAL,
    end_reason TEXT, message_count INTEGER DEFAULT 0, tool_call_count INTEGER DEFAULT 0,
    input_tokens INTEGER DEFAULT 0, output_tokens INTEGER DEFAULT 0, cache_read_tokens INTEGER DEFAULT 0,
    cache_write_tokens INTEGER DEFAULT 0, reasoning_tokens INTEGER DEFAULT 0, cwd TEXT, git_branch TEXT,
    git_repo_root TEXT, billing_provider TEXT, billing_base_url TEXT, billing_mode TEXT, estimated_cost_usd REAL,
    actual_cost_usd REAL, cost_status TEXT, cost_source TEXT, pricing_version TEXT, title TEXT,
    api_call_count INTEGER DEFAULT 0, handoff_state TEXT, handoff_platform TEXT, handoff_error TEXT,
    compression_failure_cooldown_until REAL, compression_failure_error TEXT,
    compression_fallback_streak INTEGER NOT NULL DEFAULT 0, profile_name TEXT,
    rewind_count INTEGER NOT NULL DEFAULT 0, archived INTEGER NOT NULL DEFAULT 0,
    FOREIGN KEY (parent_session_id) REFERENCES sessions(id));
CREATE TABLE messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL REFERENCES sessions(id), role TEXT NOT NULL,
    content TEXT, tool_call_id TEXT, tool_calls TEXT, tool_name TEXT, effect_disposition TEXT,
    timestamp REAL NOT NULL, token_count INTEGER, finish_reason TEXT, reasoning TEXT, reasoning_content TEXT,
    reasoning_details TEXT, codex_reasoning_items TEXT, codex_message_items TEXT, platform_message_id TEXT,
    observed INTEGER DEFAULT 0, active INTEGER NOT NULL DEFAULT 1, compacted INTEGER NOT NULL DEFAULT 0,
    api_content TEXT);
CREATE TABLE session_model_usage (
    session_id TEXT NOT NULL REFERENCES sessions(id) ON DELETE CASCADE, model TEXT NOT NULL,
    billing_provider TEXT NOT NULL DEFAULT '', billing_base_url TEXT NOT NULL DEFAULT '',
    billing_mode TEXT NOT NULL DEFAULT '', task TEXT NOT NULL DEFAULT '',
    api_call_count INTEGER NOT NULL DEFAULT 0, input_tokens INTEGER NOT NULL DEFAULT 0,
    output_tokens INTEGER NOT NULL DEFAULT 0, cache_read_tokens INTEGER NOT NULL DEFAULT 0,
    cache_write_tokens INTEGER NOT NULL DEFAULT 0, reasoning_tokens INTEGER NOT NULL DEFAULT 0,
    estimated_cost_usd REAL NOT NULL DEFAULT 0, actual_cost_usd REAL NOT NULL DEFAULT 0, cost_status TEXT,
    cost_source TEXT, first_seen REAL, last_seen REAL,
    PRIMARY KEY (session_id, model, billing_provider, billing_base_url, billing_mode, task));
CREATE TABLE state_meta (key TEXT PRIMARY KEY, value TEXT);
CREATE TABLE gateway_routing (
    scope TEXT NOT NULL DEFAULT '', session_key TEXT NOT NULL, entry_json TEXT NOT NULL, updated_at REAL NOT NULL,
    PRIMARY KEY (scope, session_key));
CREATE TABLE compression_locks (
    session_id TEXT PRIMARY KEY, holder TEXT NOT NULL, acquired_at REAL NOT NULL, expires_at REAL NOT NULL);
CREATE TABLE async_delegations (
    delegation_id TEXT PRIMARY KEY, origin_session TEXT NOT NULL, origin_ui_session_id TEXT NOT NULL DEFAULT '',
    parent_session_id TEXT, state TEXT NOT NULL, dispatched_at REAL NOT NULL, completed_at REAL,
    updated_at REAL NOT NULL, event_json TEXT, result_json TEXT, delivery_state TEXT NOT NULL DEFAULT 'pending',
    delivery_attempts INTEGER NOT NULL DEFAULT 0, delivered_at REAL, owner_pid INTEGER, owner_started_at INTEGER,
    task_json TEXT, delivery_claim TEXT, delivery_claimed_at REAL);
CREATE INDEX idx_sessions_source ON sessions(source);
CREATE INDEX idx_sessions_source_id ON sessions(source, id);
CREATE INDEX idx_sessions_parent ON sessions(parent_session_id);
CREATE INDEX idx_sessions_started ON sessions(started_at DESC);
CREATE INDEX idx_sessions_session_key ON sessions(session_key, started_at DESC);
CREATE INDEX idx_sessions_gateway_peer
    ON sessions(source, user_id, chat_id, chat_type, thread_id, started_at DESC);
CREATE INDEX idx_sessions_handoff_state ON sessions(handoff_state, started_at);
CREATE UNIQUE INDEX idx_sessions_title_unique ON sessions(title) WHERE title IS NOT NULL;
CREATE INDEX idx_messages_session ON messages(session_id, timestamp);
CREATE INDEX idx_messages_session_active ON messages(session_id, active, timestamp);
CREATE INDEX idx_messages_active_null ON messages(active) WHERE active IS NULL;
CREATE INDEX idx_messages_platform_msg_id ON messages(session_id, platform_message_id)
    WHERE platform_message_id IS NOT NULL;
CREATE INDEX idx_compression_locks_expires ON compression_locks(expires_at);
CREATE INDEX idx_session_model_usage_session ON session_model_usage(session_id);
CREATE INDEX idx_session_model_usage_model ON session_model_usage(model);
CREATE INDEX idx_async_delegations_delivery ON async_delegations(delivery_state, completed_at);
"""

INDEXED = "COALESCE(new.content, '') || ' ' || COALESCE(new.tool_name, '') || ' ' || COALESCE(new.tool_calls, '')"


def full_text(table, options):
    insert = f"INSERT INTO {table}(rowid, content) VALUES (new.id, {INDEXED});"
    delete = f"DELETE FROM {table} WHERE rowid = old.id;"
    return f"""
CREATE VIRTUAL TABLE {table} USING fts5(content{options});
CREATE TRIGGER {table}_insert AFTER INSERT ON messages BEGIN {insert} END;
CREATE TRIGGER {table}_delete AFTER DELETE ON messages BEGIN {delete} END;
CREATE TRIGGER {table}_update AFTER UPDATE ON messages BEGIN {delete} {insert} END;
"""


def create(path):
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.executescript(TABLES)
    connection.executescript(full_text("messages_fts", ""))
    connection.executescript(full_text("messages_fts_trigram", ", tokenize='trigram'"))
    connection.execute("INSERT INTO schema_version VALUES (22)")
    origin = {"platform": "telegram", "chat_id": "1", "chat_name": "Ann", "chat_type": "dm"}
    connection.execute(
        "INSERT INTO sessions (id, source, session_key, chat_id, chat_type, display_name, origin_json, started_at)"
        " VALUES ('20260101_010101_0badcafe', 'telegram', 'agent:main:telegram:dm:1', '1', 'dm', 'Ann', ?, 1000.5)",
        [json.dumps(origin)],
    )
    calls = [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}, "extra": "\ud83d"}]
    parts = [{"type": "text", "text": "half \ud83d of it"}, {"type": "image_url", "image_url": {"url": "data:x"}}]
    for role, content, tool_calls in [
        ("user", "plain 大别山项目 text", None),
        ("assistant", None, json.dumps(calls)),
        ("tool", "a\0b 😀", None),
        ("user", "\0json:" + json.dumps(parts), None),
    ]:
        connection.execute(
            "INSERT INTO messages (session_id, role, content, tool_calls, timestamp) VALUES (?, ?, ?, ?, ?)",
            ["20260101_010101_0badcafe", role, content, tool_calls, 1001.25],
        )
    connection.execute("UPDATE sessions SET message_count = 4, tool_call_count = 1")
    connection.commit()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def describe(path):
    connection = sqlite3.connect(path)
    tables = {}
    for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"):
        columns = connection.execute(f"PRAGMA table_info('{name}')").fetchall()
        tables[name] = {column[1]: [column[2], column[3], column[4], column[5]] for column in columns}
    indexes = {}
    for (name,) in connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'index' AND name LIKE 'idx_%' ORDER BY name"
    ):
        indexes[name] = [list(row[2:4]) for row in connection.execute(f"PRAGMA index_xinfo('{name}')")]
    triggers = [
        name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger' ORDER BY name")
    ]
    version = connection.execute("SELECT version FROM schema_version").fetchall()
    print(json.dumps({"tables": tables, "indexes": indexes, "triggers": triggers, "version": version}))


def go_on(path, session):
    connection = sqlite3.connect(path)
    connection.execute(
        "INSERT INTO messages (session_id, role, content, timestamp, observed, active)"
        " VALUES (?, 'user', 'from python', 5000, 0, 1)",
        [session],
    )
    connection.execute("UPDATE sessions SET message_count = message_count + 1 WHERE id = ?", [session])
    connection.commit()


def dump(path, session):
    connection = sqlite3.connect(path)
    rows = connection.execute(
        "SELECT role, content, tool_calls FROM messages WHERE session_id = ? AND active = 1 ORDER BY id", [session]
    ).fetchall()
    messages = []
    for role, content, calls in rows:
        if content is not None and content.startswith("\0json:"):
            content = json.loads(content[6:])
        messages.append([role, content, json.loads(calls) if calls else None])
    print(json.dumps(messages))


if __name__ == "__main__":
    {"create": create, "describe": describe, "continue": go_on, "dump": dump}[sys.argv[1]](*sys.argv[2:])
