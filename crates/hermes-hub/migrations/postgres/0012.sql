-- Forms that MCP servers ask to be filled in, and their answers until the agent has them.

ALTER TABLE approvals ADD COLUMN form TEXT;
ALTER TABLE approvals ADD COLUMN answer TEXT;
