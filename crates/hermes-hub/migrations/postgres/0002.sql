-- Which node works for a tenant: the row is the only pointer. `node` is NULL where the lease is free. `epoch` grows each
-- time a node takes it; what the holder writes is fenced by it. Times are of the server's clock. `always_on`: some node
-- must hold it, because the tenant's agent has a messaging platform.
CREATE TABLE leases (
    tenant TEXT PRIMARY KEY REFERENCES tenants (id) ON DELETE CASCADE,
    node TEXT,
    epoch BIGINT NOT NULL,
    expires_at TIMESTAMPTZ NOT NULL,
    always_on BOOLEAN NOT NULL DEFAULT FALSE
) WITH (fillfactor = 80);
CREATE INDEX leases_by_node ON leases (node) WHERE node IS NOT NULL;
CREATE INDEX leases_always_on ON leases (tenant) WHERE always_on;

-- `started_at` is in milliseconds since 1970 by the node's clock, `seen_at` is of the server's.
CREATE TABLE nodes (
    id TEXT PRIMARY KEY,
    version TEXT NOT NULL,
    started_at BIGINT NOT NULL,
    seen_at TIMESTAMPTZ NOT NULL,
    capacity BIGINT NOT NULL,
    draining BOOLEAN NOT NULL DEFAULT FALSE
) WITH (fillfactor = 80);

-- Requests that need a tenant's home, for the node that holds its lease. Request and reply are encrypted. `state`:
-- waiting, running, answered.
CREATE TABLE commands (
    id TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,
    node TEXT NOT NULL,
    state TEXT NOT NULL,
    request BYTEA NOT NULL,
    reply BYTEA,
    expires_at TIMESTAMPTZ NOT NULL
) WITH (fillfactor = 80);
CREATE INDEX commands_waiting ON commands (node) WHERE state = 'waiting';
CREATE INDEX commands_by_end ON commands (expires_at);
