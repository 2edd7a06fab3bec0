-- Tool calls and models of runs, what tenants used by day and model, what they may use, and what happened. Times are
-- milliseconds since 1970, days are days since then, in UTC.

ALTER TABLE runs ADD COLUMN tool_calls BIGINT NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN model TEXT;

-- What runs that ended on a day used. Rows stay when their tenant is deleted: they were paid for.
CREATE TABLE usage_days (
    day BIGINT NOT NULL,
    tenant TEXT NOT NULL,
    model TEXT NOT NULL,
    runs BIGINT NOT NULL,
    tool_calls BIGINT NOT NULL,
    input_tokens BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    cached_tokens BIGINT NOT NULL,
    PRIMARY KEY (day, tenant, model)
) WITH (fillfactor = 80);

-- What a tenant may use on a day; NULL is no limit.
CREATE TABLE tenant_limits (
    tenant TEXT PRIMARY KEY REFERENCES tenants (id) ON DELETE CASCADE,
    runs_per_day BIGINT,
    tokens_per_day BIGINT,
    updated_at BIGINT NOT NULL
);

-- What counts against the limits: runs that were accepted, tokens of runs that ended.
CREATE TABLE limit_days (
    tenant TEXT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    day BIGINT NOT NULL,
    runs BIGINT NOT NULL,
    tokens BIGINT NOT NULL,
    PRIMARY KEY (tenant, day)
) WITH (fillfactor = 80);
CREATE INDEX limit_days_by_day ON limit_days (day);

-- Events as they are stored with what they tell of. Nothing is locked for that: a transaction that commits later may have
-- the lower number. They get their ids when they are moved to the log, by one node at a time.
CREATE TABLE hub_event_inbox (
    number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    type TEXT NOT NULL,
    tenant TEXT NOT NULL,
    data TEXT NOT NULL,
    time BIGINT NOT NULL
);

CREATE TABLE hub_events (
    id BIGINT PRIMARY KEY,
    type TEXT NOT NULL,
    tenant TEXT NOT NULL,
    data TEXT NOT NULL,
    time BIGINT NOT NULL
);
CREATE INDEX hub_events_by_time ON hub_events (time);

-- The last event of the log, and the last one that was looked at for webhooks.
CREATE TABLE hub_event_head (
    only_one BOOLEAN PRIMARY KEY DEFAULT TRUE CHECK (only_one),
    last BIGINT NOT NULL,
    fanned_out BIGINT NOT NULL
) WITH (fillfactor = 80);
INSERT INTO hub_event_head (last, fanned_out) VALUES (0, 0);

CREATE TABLE webhooks (
    id TEXT PRIMARY KEY,
    url TEXT NOT NULL,
    events TEXT NOT NULL,
    -- NULL: those of all tenants.
    tenants TEXT,
    enabled BOOLEAN NOT NULL,
    -- Only later events are for it.
    since BIGINT NOT NULL,
    -- NULL after the key was lost.
    sealed BYTEA,
    revision BIGINT NOT NULL DEFAULT 1,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);

-- `state`: pending, delivered, dead.
CREATE TABLE webhook_deliveries (
    number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    webhook TEXT NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
    type TEXT NOT NULL,
    body TEXT NOT NULL,
    state TEXT NOT NULL,
    attempts BIGINT NOT NULL DEFAULT 0,
    -- When it is tried next; of a claimed one, when its claim ends.
    next_at BIGINT,
    last_status BIGINT,
    last_error TEXT,
    created_at BIGINT NOT NULL,
    ended_at BIGINT
) WITH (fillfactor = 80);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (webhook, next_at) WHERE state = 'pending';
CREATE INDEX webhook_deliveries_listed ON webhook_deliveries (webhook, number);
CREATE INDEX webhook_deliveries_by_end ON webhook_deliveries (ended_at) WHERE ended_at IS NOT NULL;
