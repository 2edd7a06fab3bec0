-- Skills that tenants take from the Hub, each as one archive.

CREATE TABLE library_skills (
    name TEXT COLLATE "C" PRIMARY KEY,
    description TEXT NOT NULL,
    version TEXT,
    files BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    archive BYTEA NOT NULL,
    revision BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    updated_by TEXT NOT NULL
);
