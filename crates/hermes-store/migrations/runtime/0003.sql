-- Runs say where they come from and what exactly was asked, so that the same request twice is one run.
ALTER TABLE runs ADD COLUMN source TEXT NOT NULL DEFAULT 'api';
ALTER TABLE runs ADD COLUMN job_id TEXT;
ALTER TABLE runs ADD COLUMN fingerprint TEXT;
CREATE INDEX runs_by_status ON runs (status, updated_at);
CREATE INDEX approvals_by_run ON approvals (run_id) WHERE run_id IS NOT NULL;

-- What was answered to requests that make something and carry an idempotency key.
CREATE TABLE replies (
    key TEXT PRIMARY KEY,
    fingerprint TEXT NOT NULL,
    status INTEGER NOT NULL,
    body TEXT NOT NULL,
    created_at REAL NOT NULL
);
