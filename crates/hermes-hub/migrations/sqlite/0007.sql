-- Runs that agents have begun in chats, until they tell what those used.

CREATE TABLE chat_runs (
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    day INTEGER NOT NULL,
    begun_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;

-- Skills of the library that the members of a group get.
CREATE TABLE group_skills (
    group_id TEXT NOT NULL REFERENCES share_groups (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    PRIMARY KEY (group_id, name)
) STRICT, WITHOUT ROWID;

-- Skills that the Hub has put into homes because of a flavor or a group, and the revision of each.
CREATE TABLE provided_skills (
    tenant TEXT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    revision INTEGER NOT NULL,
    PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;
