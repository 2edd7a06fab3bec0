-- Runs that agents have begun in chats, until they tell what those used.

CREATE TABLE chat_runs (
    tenant TEXT COLLATE "C" NOT NULL,
    id TEXT COLLATE "C" NOT NULL,
    day BIGINT NOT NULL,
    begun_at BIGINT NOT NULL,
    PRIMARY KEY (tenant, id)
);

-- Skills of the library that the members of a group get.
CREATE TABLE group_skills (
    group_id TEXT COLLATE "C" NOT NULL REFERENCES share_groups (id) ON DELETE CASCADE,
    name TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (group_id, name)
);

-- Skills that the Hub has put into homes because of a flavor or a group, and the revision of each.
CREATE TABLE provided_skills (
    tenant TEXT COLLATE "C" NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    name TEXT COLLATE "C" NOT NULL,
    revision BIGINT NOT NULL,
    PRIMARY KEY (tenant, name)
);
