-- Lists of the runs of all tenants, and what may be chosen for an approval.

CREATE INDEX runs_by_status ON runs (status, number);
CREATE INDEX runs_by_begin ON runs (created_at, number);

ALTER TABLE approvals ADD COLUMN choices TEXT;
CREATE INDEX approvals_inbox ON approvals (number) WHERE state = 'pending';
