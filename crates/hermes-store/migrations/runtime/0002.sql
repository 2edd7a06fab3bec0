-- How far an approval has become events: 0 not at all, 1 that it was asked, 2 that it was closed, too.
ALTER TABLE approvals ADD COLUMN logged INTEGER NOT NULL DEFAULT 0;
CREATE INDEX approvals_to_log ON approvals (logged) WHERE logged < 2;
