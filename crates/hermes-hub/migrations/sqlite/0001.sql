-- What the Hub remembers. Times are milliseconds since 1970.

CREATE TABLE meta (
    name TEXT PRIMARY KEY,
    value BLOB NOT NULL
) STRICT;

CREATE TABLE tenants (
    id TEXT PRIMARY KEY,
    uid TEXT NOT NULL,
    display_name TEXT NOT NULL,
    status TEXT NOT NULL,
    access_status TEXT NOT NULL DEFAULT 'active',
    access_message TEXT,
    access_reason TEXT,
    access_at INTEGER,
    access_by TEXT,
    flavor TEXT NOT NULL,
    agent TEXT NOT NULL,
    storage TEXT NOT NULL,
    browser TEXT NOT NULL,
    labels TEXT NOT NULL,
    linked_home TEXT,
    key_hash BLOB,
    key_sealed BLOB,
    key_last4 TEXT,
    key_rotated_at INTEGER,
    old_key_hash BLOB,
    old_key_until INTEGER,
    conditions TEXT NOT NULL DEFAULT '[]',
    generation INTEGER NOT NULL DEFAULT 1,
    observed_generation INTEGER NOT NULL DEFAULT 0,
    revision INTEGER NOT NULL DEFAULT 1,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    deleted_at INTEGER
) STRICT;
CREATE INDEX tenants_by_status ON tenants (status, id);
CREATE UNIQUE INDEX tenants_by_key ON tenants (key_hash) WHERE key_hash IS NOT NULL;
CREATE INDEX tenants_by_old_key ON tenants (old_key_hash) WHERE old_key_hash IS NOT NULL;

CREATE TABLE env (
    tenant TEXT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    sealed BLOB NOT NULL,
    last4 TEXT,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE share_groups (
    id TEXT PRIMARY KEY,
    display_name TEXT NOT NULL,
    kind TEXT NOT NULL,
    quota_bytes INTEGER NOT NULL,
    revision INTEGER NOT NULL DEFAULT 1,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;

CREATE TABLE members (
    tenant TEXT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    group_id TEXT NOT NULL REFERENCES share_groups (id) ON DELETE CASCADE,
    access TEXT NOT NULL,
    PRIMARY KEY (tenant, group_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX members_by_group ON members (group_id, tenant);

-- Disk space: `kind` is `tenant` or `group`.
CREATE TABLE usage (
    kind TEXT NOT NULL,
    owner TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    files INTEGER NOT NULL,
    PRIMARY KEY (kind, owner)
) STRICT, WITHOUT ROWID;

-- Operations on files under way, each with the room kept free for it.
CREATE TABLE intents (
    chain TEXT NOT NULL,
    seq INTEGER NOT NULL,
    kind TEXT,
    owner TEXT,
    bytes INTEGER NOT NULL DEFAULT 0,
    files INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (chain, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX intents_by_owner ON intents (kind, owner) WHERE owner IS NOT NULL;

CREATE TABLE tokens (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    role TEXT,
    scopes TEXT NOT NULL,
    tenants TEXT,
    cidrs TEXT NOT NULL,
    last4 TEXT NOT NULL,
    hash BLOB NOT NULL UNIQUE,
    old_hash BLOB,
    old_until INTEGER,
    -- Whether it may do everything, everywhere.
    unlimited INTEGER NOT NULL,
    expires_at INTEGER,
    last_used_at INTEGER,
    created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX tokens_by_age ON tokens (created_at, id);
CREATE INDEX tokens_by_old_hash ON tokens (old_hash) WHERE old_hash IS NOT NULL;

CREATE TABLE documents (
    kind TEXT NOT NULL,
    revision INTEGER NOT NULL,
    content TEXT NOT NULL,
    updated_at INTEGER NOT NULL,
    updated_by TEXT NOT NULL,
    PRIMARY KEY (kind, revision)
) STRICT;

-- Which revision a tenant works with.
CREATE TABLE applied (
    kind TEXT NOT NULL,
    tenant TEXT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    revision INTEGER NOT NULL,
    PRIMARY KEY (kind, tenant)
) STRICT, WITHOUT ROWID;
CREATE INDEX applied_by_tenant ON applied (tenant);

-- `state`: running, effected (the change is stored, the reply not yet), answered, lost (the Hub ended before the reply).
CREATE TABLE idempotency (
    token TEXT NOT NULL,
    route TEXT NOT NULL,
    key TEXT NOT NULL,
    body BLOB NOT NULL,
    state TEXT NOT NULL,
    node TEXT NOT NULL,
    status INTEGER,
    reply BLOB,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (token, route, key)
) STRICT;
CREATE INDEX idempotency_by_age ON idempotency (created_at);

CREATE TABLE mcp_sessions (
    hash BLOB PRIMARY KEY,
    token TEXT NOT NULL REFERENCES tokens (id) ON DELETE CASCADE,
    agreed TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    used_at INTEGER NOT NULL,
    stream_until INTEGER
) STRICT;
CREATE INDEX mcp_sessions_by_token ON mcp_sessions (token, used_at);
CREATE INDEX mcp_sessions_by_use ON mcp_sessions (used_at);

-- `number` is the order in which runs were asked for.
CREATE TABLE runs (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    tenant TEXT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    status TEXT NOT NULL,
    cause TEXT NOT NULL,
    job TEXT,
    request TEXT NOT NULL,
    metadata TEXT NOT NULL,
    timeout_seconds INTEGER,
    retry_interrupted INTEGER NOT NULL,
    attempt INTEGER NOT NULL DEFAULT 1,
    called_tool INTEGER NOT NULL DEFAULT 0,
    agent_run TEXT,
    agent_sequence INTEGER NOT NULL DEFAULT 0,
    node TEXT,
    started_at INTEGER,
    output TEXT,
    usage TEXT,
    error TEXT,
    last_event INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    ended_at INTEGER
) STRICT;
CREATE INDEX runs_by_tenant ON runs (tenant, number);
CREATE INDEX runs_queued ON runs (tenant, number) WHERE status = 'queued';
CREATE INDEX runs_under_way ON runs (tenant, status) WHERE ended_at IS NULL;
CREATE INDEX runs_by_job ON runs (tenant, job, number) WHERE job IS NOT NULL;
CREATE INDEX runs_by_end ON runs (ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE run_events (
    run INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
    id INTEGER NOT NULL,
    event TEXT NOT NULL,
    body TEXT NOT NULL,
    time INTEGER NOT NULL,
    PRIMARY KEY (run, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE approvals (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    run INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
    run_id TEXT NOT NULL,
    tenant TEXT NOT NULL,
    agent_id TEXT,
    state TEXT NOT NULL,
    command TEXT NOT NULL,
    description TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    choice TEXT,
    decided_by TEXT,
    decided_at INTEGER,
    reason TEXT,
    -- Whether the agent has been told.
    delivered INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE UNIQUE INDEX approvals_by_run ON approvals (run, agent_id);
CREATE INDEX approvals_pending ON approvals (expires_at) WHERE state = 'pending';
CREATE INDEX approvals_to_deliver ON approvals (number) WHERE delivered = 0;

-- Due times that were dealt with: a row per tenant, job and due time is what makes each fire once.
CREATE TABLE fires (
    tenant TEXT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    job TEXT NOT NULL,
    due INTEGER NOT NULL,
    fired_at INTEGER NOT NULL,
    run TEXT,
    skipped TEXT,
    PRIMARY KEY (tenant, job, due)
) STRICT, WITHOUT ROWID;
CREATE INDEX fires_by_time ON fires (due);

CREATE TABLE job_times (
    tenant TEXT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    job TEXT NOT NULL,
    next INTEGER,
    schedule_hash TEXT NOT NULL,
    PRIMARY KEY (tenant, job)
) STRICT, WITHOUT ROWID;
CREATE INDEX job_times_by_time ON job_times (next) WHERE next IS NOT NULL;

-- `text` is what was hashed; the other columns repeat parts of it, to search by.
CREATE TABLE audit (
    chain TEXT NOT NULL,
    seq INTEGER NOT NULL,
    time INTEGER NOT NULL,
    tenant TEXT,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    decision TEXT NOT NULL,
    request_id TEXT NOT NULL,
    text TEXT NOT NULL,
    hash BLOB NOT NULL,
    PRIMARY KEY (chain, seq)
) STRICT;
CREATE INDEX audit_by_time ON audit (time, chain, seq);
CREATE INDEX audit_by_tenant ON audit (tenant, time, chain, seq) WHERE tenant IS NOT NULL;

-- Where the kept part of a chain goes on from.
CREATE TABLE audit_anchors (
    chain TEXT PRIMARY KEY,
    seq INTEGER NOT NULL,
    hash BLOB NOT NULL
) STRICT;
