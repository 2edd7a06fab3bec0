-- The files that jobs were last read from, so that a start reads only those that have changed since. `modified` is in
-- nanoseconds since 1970 and NULL where there was no file.
CREATE TABLE job_files (
    tenant TEXT PRIMARY KEY REFERENCES tenants (id) ON DELETE CASCADE,
    modified INTEGER,
    size INTEGER,
    readable INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
