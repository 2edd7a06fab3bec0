-- Events of the MCP bridge. A cursor is never used again, so the last one is also kept in `meta`.
CREATE TABLE bridge_events (
    cursor INTEGER PRIMARY KEY,
    source_key TEXT NOT NULL UNIQUE,
    type TEXT NOT NULL,
    session_key TEXT,
    payload TEXT NOT NULL,
    created_at REAL NOT NULL
);

-- How far each session has been turned into events.
CREATE TABLE bridge_marks (
    session_id TEXT PRIMARY KEY,
    last_id INTEGER NOT NULL,
    max_timestamp REAL NOT NULL
);

CREATE TABLE approvals (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    session_key TEXT,
    session_id TEXT,
    run_id TEXT,
    command TEXT NOT NULL,
    description TEXT NOT NULL,
    pattern_keys TEXT NOT NULL,
    allow_permanent INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('open', 'answered', 'resolved')),
    created_at REAL NOT NULL,
    expires_at REAL,
    owner_pid INTEGER NOT NULL,
    owner_start INTEGER,
    answer TEXT,
    answered_by TEXT,
    answered_at REAL,
    reason TEXT,
    outcome TEXT,
    resolved_at REAL
);
CREATE INDEX approvals_by_state ON approvals (state, created_at);

-- What arrived from platforms, until it has been dealt with.
CREATE TABLE inbox (
    platform TEXT NOT NULL,
    account TEXT NOT NULL,
    event_id TEXT NOT NULL,
    session_key TEXT,
    payload TEXT NOT NULL,
    received_at REAL NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('new', 'running', 'done')),
    attempts INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (platform, account, event_id)
);
CREATE INDEX inbox_by_state ON inbox (state, received_at);

-- What is to be sent to platforms.
CREATE TABLE outbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    platform TEXT NOT NULL,
    target TEXT NOT NULL,
    payload TEXT NOT NULL,
    chunk INTEGER NOT NULL,
    chunks INTEGER NOT NULL,
    state TEXT NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    next_at REAL,
    platform_message_id TEXT,
    dedupe_key TEXT UNIQUE
);
CREATE INDEX outbox_by_state ON outbox (state, next_at);

-- Where reading from a platform goes on.
CREATE TABLE cursors (
    platform TEXT NOT NULL,
    account TEXT NOT NULL,
    value TEXT NOT NULL,
    updated_at REAL NOT NULL,
    PRIMARY KEY (platform, account)
);

CREATE TABLE runs (
    id TEXT PRIMARY KEY,
    session_id TEXT,
    status TEXT NOT NULL,
    input TEXT,
    output TEXT,
    usage TEXT,
    error TEXT,
    created_at REAL NOT NULL,
    updated_at REAL NOT NULL,
    idempotency_key TEXT UNIQUE
);

CREATE TABLE run_events (
    run_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    event TEXT NOT NULL,
    created_at REAL NOT NULL,
    PRIMARY KEY (run_id, seq)
);

CREATE TABLE meta (
    key TEXT PRIMARY KEY,
    value TEXT
);
