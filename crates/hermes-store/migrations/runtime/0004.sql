-- Messages name the account and the chat they go to, so that each chat's stay in order. The parts of one message share
-- `batch`, the id of the first. `action`: post a message, replace the text of `platform_message_id`, or delete it.
-- States: preview (a growing answer is shown as this message), claimed (a growing answer is becoming this part), queued,
-- sent, failed.
ALTER TABLE outbox ADD COLUMN account TEXT NOT NULL DEFAULT '';
ALTER TABLE outbox ADD COLUMN chat TEXT NOT NULL DEFAULT '';
ALTER TABLE outbox ADD COLUMN batch INTEGER;
ALTER TABLE outbox ADD COLUMN action TEXT NOT NULL DEFAULT 'post';
ALTER TABLE outbox ADD COLUMN last_error TEXT;
ALTER TABLE outbox ADD COLUMN created_at REAL NOT NULL DEFAULT 0;
ALTER TABLE outbox ADD COLUMN updated_at REAL NOT NULL DEFAULT 0;
CREATE INDEX outbox_by_chat ON outbox (platform, account, chat, id) WHERE state IN ('queued', 'claimed');
CREATE INDEX outbox_by_batch ON outbox (batch);
CREATE INDEX outbox_by_age ON outbox (updated_at) WHERE state NOT IN ('queued', 'claimed');
