-- What the Hub remembers. Times are milliseconds since 1970. Text that is compared or sorted is so by its bytes, as in
-- SQLite, whatever the locale of the database is. JSON is kept as text: the Hub reads it, the database does not.

-- The time by which nodes agree.
CREATE FUNCTION hub_now() RETURNS BIGINT LANGUAGE sql STABLE PARALLEL SAFE AS
    $$ SELECT (extract(epoch FROM statement_timestamp()) * 1000)::bigint $$;

CREATE TABLE meta (
    name TEXT COLLATE "C" PRIMARY KEY,
    value BYTEA NOT NULL
);

CREATE TABLE tenants (
    id TEXT COLLATE "C" PRIMARY KEY,
    uid TEXT NOT NULL,
    display_name TEXT COLLATE "C" NOT NULL,
    status TEXT COLLATE "C" NOT NULL,
    access_status TEXT NOT NULL DEFAULT 'active',
    access_message TEXT,
    access_reason TEXT,
    access_at BIGINT,
    access_by TEXT,
    flavor TEXT NOT NULL,
    agent TEXT NOT NULL,
    storage TEXT NOT NULL,
    browser TEXT NOT NULL,
    labels TEXT NOT NULL,
    linked_home TEXT,
    key_hash BYTEA,
    key_sealed BYTEA,
    key_last4 TEXT,
    key_rotated_at BIGINT,
    old_key_hash BYTEA,
    old_key_until BIGINT,
    conditions TEXT NOT NULL DEFAULT '[]',
    generation BIGINT NOT NULL DEFAULT 1,
    observed_generation BIGINT NOT NULL DEFAULT 0,
    revision BIGINT NOT NULL DEFAULT 1,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    deleted_at BIGINT
) WITH (fillfactor = 80);
CREATE INDEX tenants_by_status ON tenants (status, id);
CREATE UNIQUE INDEX tenants_by_key ON tenants (key_hash) WHERE key_hash IS NOT NULL;
CREATE INDEX tenants_by_old_key ON tenants (old_key_hash) WHERE old_key_hash IS NOT NULL;

CREATE TABLE env (
    tenant TEXT COLLATE "C" NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    name TEXT COLLATE "C" NOT NULL,
    sealed BYTEA NOT NULL,
    last4 TEXT,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (tenant, name)
);

CREATE TABLE share_groups (
    id TEXT COLLATE "C" PRIMARY KEY,
    display_name TEXT NOT NULL,
    kind TEXT NOT NULL,
    quota_bytes BIGINT NOT NULL,
    revision BIGINT NOT NULL DEFAULT 1,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);

CREATE TABLE members (
    tenant TEXT COLLATE "C" NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    group_id TEXT COLLATE "C" NOT NULL REFERENCES share_groups (id) ON DELETE CASCADE,
    access TEXT NOT NULL,
    PRIMARY KEY (tenant, group_id)
);
CREATE INDEX members_by_group ON members (group_id, tenant);

-- Disk space: `kind` is `tenant` or `group`.
CREATE TABLE usage (
    kind TEXT COLLATE "C" NOT NULL,
    owner TEXT COLLATE "C" NOT NULL,
    bytes BIGINT NOT NULL,
    files BIGINT NOT NULL,
    PRIMARY KEY (kind, owner)
) WITH (fillfactor = 80);
CREATE INDEX usage_by_size ON usage (bytes DESC, owner);

-- Operations on files under way, each with the room kept free for it and, as JSON, what it changes. `settled`: the log
-- says how it ended, and only its temporary files have to be removed.
CREATE TABLE intents (
    chain TEXT COLLATE "C" NOT NULL,
    seq BIGINT NOT NULL,
    kind TEXT COLLATE "C",
    owner TEXT COLLATE "C",
    bytes BIGINT NOT NULL DEFAULT 0,
    files BIGINT NOT NULL DEFAULT 0,
    change TEXT,
    settled BOOLEAN NOT NULL DEFAULT FALSE,
    PRIMARY KEY (chain, seq)
) WITH (fillfactor = 80);
CREATE INDEX intents_by_owner ON intents (kind, owner) WHERE owner IS NOT NULL;

CREATE TABLE tokens (
    id TEXT COLLATE "C" PRIMARY KEY,
    name TEXT NOT NULL,
    role TEXT,
    scopes TEXT NOT NULL,
    tenants TEXT,
    cidrs TEXT NOT NULL,
    last4 TEXT NOT NULL,
    hash BYTEA NOT NULL UNIQUE,
    old_hash BYTEA,
    old_until BIGINT,
    -- Whether it may do everything, everywhere.
    unlimited BOOLEAN NOT NULL,
    expires_at BIGINT,
    last_used_at BIGINT,
    created_at BIGINT NOT NULL
) WITH (fillfactor = 80);
CREATE INDEX tokens_by_age ON tokens (created_at, id);
CREATE INDEX tokens_by_old_hash ON tokens (old_hash) WHERE old_hash IS NOT NULL;
CREATE INDEX tokens_unlimited ON tokens (id) WHERE unlimited;

CREATE TABLE documents (
    kind TEXT COLLATE "C" NOT NULL,
    revision BIGINT NOT NULL,
    content TEXT NOT NULL,
    updated_at BIGINT NOT NULL,
    updated_by TEXT NOT NULL,
    PRIMARY KEY (kind, revision)
);

-- Which revision a tenant works with.
CREATE TABLE applied (
    kind TEXT COLLATE "C" NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    revision BIGINT NOT NULL,
    PRIMARY KEY (kind, tenant)
) WITH (fillfactor = 80);
CREATE INDEX applied_by_tenant ON applied (tenant);

-- `state`: running, begun (it may take effect), effected (the change is stored, the reply not yet), answered, lost (the
-- Hub ended before the reply).
CREATE TABLE idempotency (
    token TEXT COLLATE "C" NOT NULL,
    route TEXT COLLATE "C" NOT NULL,
    key TEXT COLLATE "C" NOT NULL,
    body BYTEA NOT NULL,
    state TEXT NOT NULL,
    node TEXT COLLATE "C" NOT NULL,
    status BIGINT,
    reply BYTEA,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (token, route, key)
) WITH (fillfactor = 80);
CREATE INDEX idempotency_by_age ON idempotency (created_at);
CREATE INDEX idempotency_unanswered ON idempotency (node) WHERE state IN ('running', 'begun', 'effected');

CREATE TABLE mcp_sessions (
    hash BYTEA PRIMARY KEY,
    token TEXT COLLATE "C" NOT NULL REFERENCES tokens (id) ON DELETE CASCADE,
    agreed TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    used_at BIGINT NOT NULL,
    stream_until BIGINT
) WITH (fillfactor = 80);
CREATE INDEX mcp_sessions_by_token ON mcp_sessions (token, used_at);
CREATE INDEX mcp_sessions_by_use ON mcp_sessions (used_at);

-- `number` is the order in which runs were asked for.
CREATE TABLE runs (
    number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id TEXT COLLATE "C" NOT NULL UNIQUE,
    tenant TEXT COLLATE "C" NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    status TEXT COLLATE "C" NOT NULL,
    cause TEXT NOT NULL,
    job TEXT COLLATE "C",
    request TEXT NOT NULL,
    metadata TEXT NOT NULL,
    timeout_seconds BIGINT,
    retry_interrupted BOOLEAN NOT NULL,
    attempt BIGINT NOT NULL DEFAULT 1,
    called_tool BOOLEAN NOT NULL DEFAULT FALSE,
    agent_run TEXT,
    agent_sequence BIGINT NOT NULL DEFAULT 0,
    node TEXT COLLATE "C",
    started_at BIGINT,
    output TEXT,
    usage TEXT,
    error TEXT,
    last_event BIGINT NOT NULL DEFAULT 0,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    ended_at BIGINT
) WITH (fillfactor = 80);
CREATE INDEX runs_by_tenant ON runs (tenant, number);
CREATE INDEX runs_queued ON runs (tenant, number) WHERE status = 'queued';
CREATE INDEX runs_under_way ON runs (tenant, status) WHERE ended_at IS NULL;
CREATE INDEX runs_claimed ON runs (node, number) WHERE ended_at IS NULL AND status <> 'queued';
CREATE INDEX runs_by_job ON runs (tenant, job, number) WHERE job IS NOT NULL;
CREATE INDEX runs_by_end ON runs (ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE run_events (
    run BIGINT NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
    id BIGINT NOT NULL,
    event TEXT NOT NULL,
    body TEXT NOT NULL,
    time BIGINT NOT NULL,
    PRIMARY KEY (run, id)
);

CREATE TABLE approvals (
    number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id TEXT COLLATE "C" NOT NULL UNIQUE,
    run BIGINT NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
    run_id TEXT NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    agent_id TEXT COLLATE "C",
    state TEXT COLLATE "C" NOT NULL,
    command TEXT NOT NULL,
    description TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT,
    choice TEXT,
    decided_by TEXT,
    decided_at BIGINT,
    reason TEXT,
    -- Whether the agent has been told.
    delivered BOOLEAN NOT NULL DEFAULT FALSE
) WITH (fillfactor = 80);
CREATE UNIQUE INDEX approvals_by_run ON approvals (run, agent_id);
CREATE INDEX approvals_by_tenant ON approvals (tenant, number);
CREATE INDEX approvals_pending ON approvals (expires_at) WHERE state = 'pending';
CREATE INDEX approvals_to_deliver ON approvals (number) WHERE NOT delivered;

-- Due times that were dealt with: a row per tenant, job and due time is what makes each fire once.
CREATE TABLE fires (
    tenant TEXT COLLATE "C" NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    job TEXT COLLATE "C" NOT NULL,
    due BIGINT NOT NULL,
    fired_at BIGINT NOT NULL,
    run TEXT,
    skipped TEXT,
    PRIMARY KEY (tenant, job, due)
);
CREATE INDEX fires_by_time ON fires (due);

CREATE TABLE job_times (
    tenant TEXT COLLATE "C" NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    job TEXT COLLATE "C" NOT NULL,
    next BIGINT,
    schedule_hash TEXT NOT NULL,
    PRIMARY KEY (tenant, job)
) WITH (fillfactor = 80);
CREATE INDEX job_times_by_time ON job_times (next) WHERE next IS NOT NULL;

-- The files that jobs were last read from, so that a start reads only those that have changed since. `modified` is in
-- nanoseconds since 1970 and NULL where there was no file.
CREATE TABLE job_files (
    tenant TEXT COLLATE "C" PRIMARY KEY REFERENCES tenants (id) ON DELETE CASCADE,
    modified BIGINT,
    size BIGINT,
    readable BOOLEAN NOT NULL
);

-- `text` is what was hashed; the other columns repeat parts of it, to search by.
CREATE TABLE audit (
    chain TEXT COLLATE "C" NOT NULL,
    seq BIGINT NOT NULL,
    time BIGINT NOT NULL,
    tenant TEXT COLLATE "C",
    actor TEXT COLLATE "C" NOT NULL,
    action TEXT COLLATE "C" NOT NULL,
    decision TEXT COLLATE "C" NOT NULL,
    request_id TEXT COLLATE "C" NOT NULL,
    text TEXT NOT NULL,
    hash BYTEA NOT NULL,
    PRIMARY KEY (chain, seq)
);
CREATE INDEX audit_by_time ON audit (time, chain, seq);
CREATE INDEX audit_by_tenant ON audit (tenant, time, chain, seq) WHERE tenant IS NOT NULL;

-- Where the kept part of a chain goes on from.
CREATE TABLE audit_anchors (
    chain TEXT COLLATE "C" PRIMARY KEY,
    seq BIGINT NOT NULL,
    hash BYTEA NOT NULL
);

-- Each chain is found by one look into the index, instead of by reading all of it.
CREATE VIEW audit_chains (chain) AS
    WITH RECURSIVE found (chain) AS (
        (SELECT MIN(chain) FROM audit)
        UNION ALL
        SELECT (SELECT MIN(chain) FROM audit WHERE chain > found.chain) FROM found WHERE found.chain IS NOT NULL
    )
    SELECT chain FROM found WHERE chain IS NOT NULL;
