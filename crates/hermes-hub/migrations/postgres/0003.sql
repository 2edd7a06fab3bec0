-- Files of shares: paths here, contents in object storage. `parts` are the names of blobs in order, `part_sizes`
-- their bytes. `version` is never used twice. Paths compare as bytes.
CREATE SEQUENCE share_versions;

CREATE TABLE share_entries (
    group_id TEXT NOT NULL,
    path TEXT COLLATE "C" NOT NULL,
    parent TEXT COLLATE "C" NOT NULL,
    is_dir BOOLEAN NOT NULL,
    parts TEXT[] NOT NULL DEFAULT '{}',
    part_sizes BIGINT[] NOT NULL DEFAULT '{}',
    size BIGINT NOT NULL DEFAULT 0,
    version BIGINT NOT NULL DEFAULT nextval('share_versions'),
    modified_us BIGINT NOT NULL,
    PRIMARY KEY (group_id, path)
);
CREATE INDEX share_entries_by_parent ON share_entries (group_id, parent, is_dir DESC, path);
CREATE INDEX share_entries_by_blob ON share_entries USING gin (parts);

-- One row a share, locked by every change of it.
CREATE TABLE share_usage (
    group_id TEXT PRIMARY KEY,
    bytes BIGINT NOT NULL DEFAULT 0,
    files BIGINT NOT NULL DEFAULT 0,
    changed_us BIGINT NOT NULL
) WITH (fillfactor = 80);

-- What was removed, until its time is over.
CREATE TABLE share_trash (
    group_id TEXT NOT NULL,
    path TEXT COLLATE "C" NOT NULL,
    is_dir BOOLEAN NOT NULL,
    parts TEXT[] NOT NULL,
    part_sizes BIGINT[] NOT NULL,
    size BIGINT NOT NULL,
    removed_us BIGINT NOT NULL
);
CREATE INDEX share_trash_by_time ON share_trash (removed_us);
CREATE INDEX share_trash_by_blob ON share_trash USING gin (parts);

-- Blobs, and when somebody last was about to refer to them. A blob's name is its hash and `generation`: one that is
-- deleted and written again has another name, so that a late deletion never hits it.
CREATE TABLE blobs (
    hash TEXT PRIMARY KEY,
    generation BIGINT NOT NULL GENERATED ALWAYS AS IDENTITY,
    touched_at TIMESTAMPTZ NOT NULL
) WITH (fillfactor = 80);
CREATE INDEX blobs_by_time ON blobs (touched_at);

-- Names of blobs that nobody can refer to any more; their objects are to be deleted.
CREATE TABLE condemned_blobs (
    name TEXT PRIMARY KEY
);

-- Checkpoints of homes: the manifest is the object `homes/<uid>/ckpt/<epoch>-<seq>`.
CREATE TABLE checkpoints (
    tenant_uid TEXT NOT NULL,
    epoch BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    node TEXT NOT NULL,
    manifest_sha256 TEXT NOT NULL,
    files BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    created_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_uid, epoch, seq)
);
