-- Skills that tenants take from the Hub, each as one archive.

CREATE TABLE library_skills (
    name TEXT PRIMARY KEY,
    description TEXT NOT NULL,
    version TEXT,
    files INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    archive BLOB NOT NULL,
    revision INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    updated_by TEXT NOT NULL
) STRICT;
