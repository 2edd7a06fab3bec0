-- Tool calls and models of runs, what tenants used by day and model, what they may use, and what happened.

ALTER TABLE runs ADD COLUMN tool_calls INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN model TEXT;

-- What runs that ended on a day (days since 1970, UTC) used. Rows stay when their tenant is deleted: they were paid for.
CREATE TABLE usage_days (
    day INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    model TEXT NOT NULL,
    runs INTEGER NOT NULL,
    tool_calls INTEGER NOT NULL,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cached_tokens INTEGER NOT NULL,
    PRIMARY KEY (day, tenant, model)
) STRICT, WITHOUT ROWID;

-- What a tenant may use on a day; NULL is no limit.
CREATE TABLE tenant_limits (
    tenant TEXT PRIMARY KEY REFERENCES tenants (id) ON DELETE CASCADE,
    runs_per_day INTEGER,
    tokens_per_day INTEGER,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What counts against the limits: runs that were accepted, tokens of runs that ended.
CREATE TABLE limit_days (
    tenant TEXT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    day INTEGER NOT NULL,
    runs INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    PRIMARY KEY (tenant, day)
) STRICT, WITHOUT ROWID;
CREATE INDEX limit_days_by_day ON limit_days (day);

-- Events of the Hub. An id is never used again, so that a watcher that resumes misses nothing.
CREATE TABLE hub_events (
    id INTEGER PRIMARY KEY,
    type TEXT NOT NULL,
    tenant TEXT NOT NULL,
    data TEXT NOT NULL,
    time INTEGER NOT NULL
) STRICT;
CREATE INDEX hub_events_by_time ON hub_events (time);

-- The last event that there ever was, and the last one that was looked at for webhooks.
CREATE TABLE hub_event_head (
    only_one INTEGER PRIMARY KEY DEFAULT 1 CHECK (only_one = 1),
    last INTEGER NOT NULL,
    fanned_out INTEGER NOT NULL
) STRICT;
INSERT INTO hub_event_head (last, fanned_out) VALUES (0, 0);
CREATE TRIGGER hub_events_counted AFTER INSERT ON hub_events BEGIN
    UPDATE hub_event_head SET last = NEW.id WHERE last < NEW.id;
END;

CREATE TABLE webhooks (
    id TEXT PRIMARY KEY,
    url TEXT NOT NULL,
    events TEXT NOT NULL,
    -- NULL: those of all tenants.
    tenants TEXT,
    enabled INTEGER NOT NULL,
    -- Only later events are for it.
    since INTEGER NOT NULL,
    -- NULL after the key was lost.
    sealed BLOB,
    revision INTEGER NOT NULL DEFAULT 1,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;

-- `state`: pending, delivered, dead.
CREATE TABLE webhook_deliveries (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    webhook TEXT NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
    type TEXT NOT NULL,
    body TEXT NOT NULL,
    state TEXT NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    -- When it is tried next; of a claimed one, when its claim ends.
    next_at INTEGER,
    last_status INTEGER,
    last_error TEXT,
    created_at INTEGER NOT NULL,
    ended_at INTEGER
) STRICT;
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (webhook, next_at) WHERE state = 'pending';
CREATE INDEX webhook_deliveries_listed ON webhook_deliveries (webhook, number);
CREATE INDEX webhook_deliveries_by_end ON webhook_deliveries (ended_at) WHERE ended_at IS NOT NULL;
