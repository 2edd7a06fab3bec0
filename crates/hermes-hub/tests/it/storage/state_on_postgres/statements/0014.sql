DELETE FROM audit WHERE chain = $1 AND seq <= $2
DELETE FROM changes WHERE writer < pg_snapshot_xmin($1::text::pg_snapshot)
DELETE FROM chat_runs WHERE day < $1
DELETE FROM chat_runs WHERE tenant = $1 AND id = $2
DELETE FROM checkpoints USING unnest($2::bigint[], $3::bigint[]) AS gone (epoch, seq) WHERE checkpoints.tenant_uid = $1 AND checkpoints.epoch = gone.epoch AND checkpoints.seq = gone.seq
DELETE FROM commands WHERE expires_at < clock_timestamp() - INTERVAL '1 hour'
DELETE FROM commands WHERE id = $1 AND state = 'answered' RETURNING reply
DELETE FROM commands WHERE id = $1 AND state = 'waiting'
DELETE FROM condemned_blobs WHERE name = ANY($1)
DELETE FROM console_sessions WHERE id = $1 RETURNING id
DELETE FROM console_sessions WHERE used_at < $1 OR ends_at <= hub_now() RETURNING id
DELETE FROM env
DELETE FROM env WHERE tenant = $1 AND name = $2
DELETE FROM fires WHERE ctid = ANY(ARRAY( SELECT ctid FROM fires WHERE due < $1 ORDER BY due LIMIT $2)) AND due < $1
DELETE FROM group_skills WHERE group_id = $1
DELETE FROM hub_events WHERE id = ANY(ARRAY( SELECT id FROM hub_events WHERE time < $1 ORDER BY time LIMIT $2))
DELETE FROM idempotency
DELETE FROM idempotency WHERE ctid = ANY(ARRAY( SELECT ctid FROM idempotency WHERE created_at < $1 ORDER BY created_at LIMIT $2)) AND created_at < $1
DELETE FROM idempotency WHERE node = $1 AND state = 'running'
DELETE FROM idempotency WHERE token = $1 AND route = $2 AND key = $3 AND state IN ('running', 'begun') AND node = $4
DELETE FROM intents WHERE chain = $1 AND seq = $2 AND NOT settled
DELETE FROM intents WHERE chain = $1 AND seq = $2 AND settled
DELETE FROM job_files WHERE tenant = $1
DELETE FROM job_times WHERE tenant = $1 AND job <> ALL($2)
DELETE FROM library_skills WHERE name = $1
DELETE FROM limit_days WHERE ctid = ANY(ARRAY( SELECT ctid FROM limit_days WHERE day < $1 ORDER BY day LIMIT $2)) AND day < $1
DELETE FROM mcp_sessions WHERE hash = $1 AND token = $2
DELETE FROM mcp_sessions WHERE hash = ( SELECT hash FROM mcp_sessions WHERE token = $1 AND COALESCE(stream_until, 0) <= hub_now() ORDER BY used_at, created_at LIMIT 1) RETURNING hash
DELETE FROM mcp_sessions WHERE used_at < $1 AND COALESCE(stream_until, 0) < $1
DELETE FROM members WHERE tenant = $1
DELETE FROM members WHERE tenant = $1 AND group_id = $2
DELETE FROM meta WHERE name <> $1
DELETE FROM provided_skills WHERE tenant = $1 AND name = $2
DELETE FROM runs WHERE number = ANY(ARRAY( SELECT number FROM runs WHERE ended_at < $1 ORDER BY ended_at LIMIT $2 FOR UPDATE SKIP LOCKED))
DELETE FROM share_groups WHERE id = $1
DELETE FROM share_trash WHERE removed_us < $1
DELETE FROM share_usage WHERE group_id = $1
DELETE FROM sign_in_links WHERE ends_at <= hub_now() RETURNING token
DELETE FROM sign_in_links WHERE hash = $1 AND ends_at > hub_now() RETURNING token
DELETE FROM tenants WHERE id = $1 AND status = 'deleted'
DELETE FROM tokens WHERE id = $1
DELETE FROM usage WHERE kind = 'group' AND owner = $1
DELETE FROM usage WHERE kind = 'tenant' AND owner = $1
DELETE FROM webhook_deliveries WHERE number = ANY(ARRAY( SELECT number FROM webhook_deliveries WHERE ended_at < $1 ORDER BY ended_at LIMIT $2)) AND ended_at < $1
DELETE FROM webhooks WHERE id = $1
INSERT INTO applied (kind, tenant, revision) SELECT $1, id, $3 FROM tenants WHERE id = $2 ON CONFLICT (kind, tenant) DO UPDATE SET revision = excluded.revision
INSERT INTO approvals (id, run, run_id, tenant, agent_id, state, command, description, created_at, expires_at, choices, form) VALUES ($1, $2, $3, $4, $5, 'pending', $6, $7, $8, $9, $10, $11) ON CONFLICT (run, agent_id) DO NOTHING
INSERT INTO audit (chain, seq, time, tenant, actor, action, decision, request_id, text, hash) SELECT $1, * FROM unnest($2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::bytea[])
INSERT INTO audit_anchors (chain, seq, hash) VALUES ($1, $2, $3) ON CONFLICT (chain) DO UPDATE SET seq = excluded.seq, hash = excluded.hash
INSERT INTO blobs (hash, touched_at) SELECT hash, clock_timestamp() FROM unnest($1::text[]) AS hash ON CONFLICT (hash) DO UPDATE SET touched_at = excluded.touched_at RETURNING hash, hash || '.' || generation AS name
INSERT INTO changes (subject) VALUES ($1)
INSERT INTO chat_runs (tenant, id, day, begun_at) VALUES ($1, $2, $3, $4) ON CONFLICT (tenant, id) DO NOTHING
INSERT INTO checkpoints (tenant_uid, epoch, seq, node, manifest_sha256, files, bytes) VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (tenant_uid, epoch, seq) DO NOTHING
INSERT INTO commands (id, tenant, node, state, request, expires_at) VALUES ($1, $2, $3, 'waiting', $4, clock_timestamp() + $5 * INTERVAL '1 millisecond')
INSERT INTO console_sessions (id, hash, token, holder, address, user_agent, created_at, used_at, ends_at) VALUES ($1, $2, $3, $4, $5, $6, hub_now(), hub_now(), $7)
INSERT INTO documents (kind, revision, content, updated_at, updated_by) VALUES ($1, $2, $3, $4, $5)
INSERT INTO env (tenant, name, sealed, last4, updated_at) VALUES ($1, $2, $3, $4, $5) ON CONFLICT (tenant, name) DO UPDATE SET sealed = excluded.sealed, last4 = excluded.last4, updated_at = excluded.updated_at
INSERT INTO fires (tenant, job, due, fired_at, run, skipped) VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (tenant, job, due) DO NOTHING
INSERT INTO group_skills (group_id, name) SELECT $1, name FROM unnest($2::text[]) AS given (name)
INSERT INTO hub_event_inbox (type, tenant, data, time) SELECT *, $4 FROM unnest($1::text[], $2::text[], $3::text[])
INSERT INTO hub_schema (version, readable_since) VALUES ($1, $2) ON CONFLICT (only_one) DO UPDATE SET version = excluded.version, readable_since = excluded.readable_since
INSERT INTO idempotency AS known (token, route, key, body, state, node, created_at) VALUES ($1, $2, $3, $4, 'running', $5, hub_now()) ON CONFLICT (token, route, key) DO UPDATE SET body = excluded.body, state = excluded.state, node = excluded.node, status = NULL, reply = NULL, created_at = excluded.created_at WHERE known.created_at < hub_now() - 86400000 OR (known.state = 'running' AND known.body = excluded.body AND known.created_at < hub_now() - 60000 AND NOT EXISTS ( SELECT 1 FROM nodes WHERE nodes.id = known.node AND nodes.seen_at > clock_timestamp() - INTERVAL '1 minute'))
INSERT INTO intents (chain, seq, kind, owner, bytes, files, change) VALUES ($1, $2, $3, $4, $5, $6, $7)
INSERT INTO job_files (tenant, modified, size, readable) SELECT id, $2, $3, $4 FROM tenants WHERE id = $1 ON CONFLICT (tenant) DO UPDATE SET modified = excluded.modified, size = excluded.size, readable = excluded.readable
INSERT INTO job_times (tenant, job, next, schedule_hash) VALUES ($1, $2, $3, $4) ON CONFLICT (tenant, job) DO UPDATE SET next = excluded.next, schedule_hash = excluded.schedule_hash
INSERT INTO leases (tenant, epoch, expires_at) SELECT id, 0, '-infinity' FROM tenants WHERE id = ANY($1) ON CONFLICT (tenant) DO NOTHING
INSERT INTO library_skills (name, description, version, files, bytes, archive, revision, updated_at, updated_by) VALUES ($1, $2, $3, $4, $5, $6, 1, $7, $8) ON CONFLICT (name) DO UPDATE SET description = excluded.description, version = excluded.version, files = excluded.files, bytes = excluded.bytes, archive = excluded.archive, revision = library_skills.revision + 1, updated_at = excluded.updated_at, updated_by = excluded.updated_by RETURNING name, description, version, files, bytes, revision, updated_at, updated_by
INSERT INTO limit_days AS d (tenant, day, runs, tokens) VALUES ($1, $2, $3, $4) ON CONFLICT (tenant, day) DO UPDATE SET runs = d.runs + excluded.runs, tokens = d.tokens + excluded.tokens
INSERT INTO mcp_sessions (hash, token, agreed, created_at, used_at) SELECT $1, id, $3, hub_now(), hub_now() FROM tokens WHERE id = $2
INSERT INTO members (tenant, group_id, access) SELECT $1, id, $3 FROM share_groups WHERE id = $2 ON CONFLICT (tenant, group_id) DO UPDATE SET access = excluded.access
INSERT INTO members (tenant, group_id, access) VALUES ($1, $2, $3) ON CONFLICT (tenant, group_id) DO UPDATE SET access = excluded.access
INSERT INTO meta (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value
INSERT INTO meta (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = meta.value RETURNING value
INSERT INTO nodes (id, version, started_at, seen_at, capacity) VALUES ($1, $2, $3, clock_timestamp(), $4) ON CONFLICT (id) DO UPDATE SET version = excluded.version, started_at = excluded.started_at, seen_at = excluded.seen_at, capacity = excluded.capacity RETURNING draining, (EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::BIGINT AS now
INSERT INTO provided_skills (tenant, name, revision) VALUES ($1, $2, $3) ON CONFLICT (tenant, name) DO UPDATE SET revision = excluded.revision
INSERT INTO run_events (run, id, event, body, time) SELECT $1, added.id, added.event, added.body, $2 FROM unnest($3::bigint[], $4::text[], $5::text[]) AS added (id, event, body)
INSERT INTO runs (id, tenant, status, cause, job, request, metadata, timeout_seconds, retry_interrupted, created_at, updated_at) VALUES ($1, $2, 'queued', $3, $4, $5, $6, $7, $8, $9, $9) RETURNING *
INSERT INTO share_entries (group_id, path, parent, is_dir, parts, part_sizes, size, modified_us) VALUES ($1, $2, $3, $4, $5, $6, $7, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) ON CONFLICT (group_id, path) DO UPDATE SET is_dir = excluded.is_dir, parts = excluded.parts, part_sizes = excluded.part_sizes, size = excluded.size, version = nextval('share_versions'), modified_us = excluded.modified_us RETURNING path, is_dir, parts, part_sizes, version, modified_us
INSERT INTO share_groups (id, display_name, kind, quota_bytes, created_at, updated_at) VALUES ($1, $2, $3, $4, $5, $5) ON CONFLICT (id) DO NOTHING
INSERT INTO share_usage (group_id, changed_us) VALUES ($1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) ON CONFLICT (group_id) DO NOTHING
INSERT INTO sign_in_links (hash, token, ends_at) VALUES ($1, $2, $3)
INSERT INTO tenant_limits (tenant, runs_per_day, tokens_per_day, updated_at) VALUES ($1, $2, $3, $4) ON CONFLICT (tenant) DO UPDATE SET runs_per_day = excluded.runs_per_day, tokens_per_day = excluded.tokens_per_day, updated_at = excluded.updated_at
INSERT INTO tenants (id, uid, display_name, status, flavor, agent, storage, browser, labels, linked_home, key_hash, key_sealed, key_last4, key_rotated_at, created_at, updated_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $14, $14) ON CONFLICT (id) DO NOTHING
INSERT INTO tokens (id, name, role, scopes, tenants, cidrs, last4, hash, unlimited, expires_at, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) RETURNING *
INSERT INTO usage (kind, owner, bytes, files) VALUES ($1, $2, $3, $4) ON CONFLICT (kind, owner) DO UPDATE SET bytes = excluded.bytes, files = excluded.files
INSERT INTO usage_days AS d (day, tenant, model, runs, tool_calls, input_tokens, output_tokens, cached_tokens) SELECT $2, tenant, COALESCE(model, ''), 1, tool_calls, $3, $4, $5 FROM runs WHERE number = $1 ON CONFLICT (day, tenant, model) DO UPDATE SET runs = d.runs + 1, tool_calls = d.tool_calls + excluded.tool_calls, input_tokens = d.input_tokens + excluded.input_tokens, output_tokens = d.output_tokens + excluded.output_tokens, cached_tokens = d.cached_tokens + excluded.cached_tokens
INSERT INTO usage_days AS d (day, tenant, model, runs, tool_calls, input_tokens, output_tokens, cached_tokens) VALUES ($1, $2, $3, 1, $4, $5, $6, $7) ON CONFLICT (day, tenant, model) DO UPDATE SET runs = d.runs + 1, tool_calls = d.tool_calls + excluded.tool_calls, input_tokens = d.input_tokens + excluded.input_tokens, output_tokens = d.output_tokens + excluded.output_tokens, cached_tokens = d.cached_tokens + excluded.cached_tokens
INSERT INTO webhook_deliveries (id, webhook, type, body, state, next_at, created_at) VALUES ($1, $2, $3, $4, 'pending', $5, $5)
INSERT INTO webhooks (id, url, events, tenants, enabled, since, sealed, created_at, updated_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8)
SELECT (SELECT COUNT(*) FROM tenants WHERE status <> 'deleted') AS tenants, (SELECT COUNT(*) FROM applied WHERE kind = $1 AND revision >= $2) - (SELECT COUNT(*) FROM tenants t JOIN applied a ON a.kind = $1 AND a.tenant = t.id AND a.revision >= $2 WHERE t.status = 'deleted') AS applied
SELECT (SELECT MIN(id) FROM hub_events) AS oldest, last FROM hub_event_head
SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS time, (SELECT system_identifier::text FROM pg_control_system()) AS system, (SELECT timeline_id::bigint FROM pg_control_checkpoint()) AS timeline, (CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_flush_lsn() END)::text AS wal
SELECT * FROM approvals WHERE TRUE
SELECT * FROM approvals WHERE TRUE AND tenant = ANY($1) AND run = (SELECT number FROM runs WHERE id = $2) AND state = 'pending' AND state = 'pending' AND expires_at < $3 AND NOT delivered AND state <> 'pending' AND number > $4 ORDER BY number LIMIT $5
SELECT * FROM approvals WHERE TRUE ORDER BY number LIMIT $1
SELECT * FROM approvals WHERE id = $1
SELECT * FROM console_sessions WHERE hash = $1 AND used_at >= $2 AND ends_at > hub_now()
SELECT * FROM console_sessions WHERE used_at >= $1 AND ends_at > hub_now() AND ($2::text IS NULL OR token = $2) ORDER BY created_at DESC, id LIMIT 1000
SELECT * FROM documents WHERE kind = $1 AND revision < $2 ORDER BY revision DESC LIMIT $3
SELECT * FROM documents WHERE kind = $1 AND revision = $2
SELECT * FROM documents WHERE kind = $1 ORDER BY revision DESC LIMIT 1
SELECT * FROM hub_events WHERE id > $1 AND type = ANY($2) AND tenant = $3 AND tenant = ANY($4) ORDER BY id LIMIT $5
SELECT * FROM hub_events WHERE id > $1 ORDER BY id LIMIT $2
SELECT * FROM library_skills WHERE name = $1
SELECT * FROM runs WHERE TRUE
SELECT * FROM runs WHERE TRUE AND tenant = $1 AND tenant = ANY($2) AND status = $3 AND cause = $4 AND job = $5 AND model = $6 AND number >= (SELECT number FROM runs WHERE created_at >= $7 ORDER BY created_at, number LIMIT 1) AND number <= (SELECT number FROM runs WHERE created_at < $8 ORDER BY created_at DESC, number DESC LIMIT 1) AND number < $9 ORDER BY number DESC LIMIT $10
SELECT * FROM runs WHERE TRUE ORDER BY number DESC LIMIT $1
SELECT * FROM runs WHERE ended_at IS NULL AND status <> 'queued' AND node = $1 ORDER BY number
SELECT * FROM runs WHERE id = $1 AND tenant = $2
SELECT * FROM runs WHERE id = $1 AND tenant = $2 FOR NO KEY UPDATE
SELECT * FROM tokens WHERE (created_at, id) > ($1, $2) ORDER BY created_at, id LIMIT $3
SELECT * FROM tokens WHERE hash = $1 UNION ALL SELECT * FROM tokens WHERE old_hash = $1 AND old_until > hub_now() LIMIT 1
SELECT * FROM tokens WHERE id = $1
SELECT * FROM webhook_deliveries WHERE id = $1 AND webhook = $2
SELECT * FROM webhook_deliveries WHERE webhook = $1 AND number < $2 ORDER BY number DESC LIMIT $3
SELECT * FROM webhook_deliveries WHERE webhook = $1 AND state = $2 AND number < $3 ORDER BY number DESC LIMIT $4
SELECT * FROM webhooks ORDER BY created_at, id
SELECT * FROM webhooks WHERE enabled
SELECT * FROM webhooks WHERE id = $1
SELECT * FROM webhooks WHERE id = $1 FOR UPDATE
SELECT 1
SELECT 1 FROM idempotency WHERE token = $1 AND route = $2 AND key = $3 AND node <> $4
SELECT 1 FROM leases WHERE tenant = $1 AND node = $2 AND epoch = $3 AND expires_at > clock_timestamp() FOR KEY SHARE
SELECT CAST(day AS TEXT) AS key, model, SUM(runs)::BIGINT AS runs, SUM(tool_calls)::BIGINT AS tool_calls, SUM(input_tokens)::BIGINT AS input_tokens, SUM(output_tokens)::BIGINT AS output_tokens, SUM(cached_tokens)::BIGINT AS cached_tokens FROM usage_days WHERE day BETWEEN $1 AND $2 AND tenant COLLATE "C" = ANY($3) GROUP BY 1, 2 HAVING SUM(runs) > 0 ORDER BY 1, 2
SELECT CAST(day AS TEXT) AS key, model, SUM(runs)::BIGINT AS runs, SUM(tool_calls)::BIGINT AS tool_calls, SUM(input_tokens)::BIGINT AS input_tokens, SUM(output_tokens)::BIGINT AS output_tokens, SUM(cached_tokens)::BIGINT AS cached_tokens FROM usage_totals WHERE day BETWEEN $1 AND $2 GROUP BY 1, 2 HAVING SUM(runs) > 0 ORDER BY 1, 2
SELECT COALESCE(MAX(revision), 0) FROM documents WHERE kind = $1
SELECT COUNT(*) AS open FROM mcp_sessions WHERE token = $1
SELECT COUNT(*) AS pending FROM approvals WHERE state = 'pending'
SELECT COUNT(*) AS waiting FROM runs WHERE tenant = $1 AND status = 'queued'
SELECT COUNT(*) AS webhooks FROM webhooks
SELECT DISTINCT name FROM group_skills JOIN members USING (group_id) WHERE tenant = $1 ORDER BY name
SELECT DISTINCT tenant FROM env
SELECT DISTINCT tenant_uid FROM checkpoints WHERE NOT EXISTS (SELECT 1 FROM tenants WHERE tenants.uid = checkpoints.tenant_uid)
SELECT EXISTS (SELECT 1 FROM approvals WHERE id = $1)
SELECT EXISTS (SELECT 1 FROM env) OR EXISTS (SELECT 1 FROM tenants WHERE key_sealed IS NOT NULL) OR EXISTS (SELECT 1 FROM webhooks WHERE sealed IS NOT NULL)
SELECT EXISTS (SELECT 1 FROM runs WHERE tenant = $1 AND status = 'queued')
SELECT EXISTS (SELECT 1 FROM tokens) AS is_known
SELECT EXISTS (SELECT 1 FROM webhooks WHERE enabled) AND EXISTS (SELECT 1 FROM hub_events WHERE id > (SELECT fanned_out FROM hub_event_head)) AS needed
SELECT EXISTS (SELECT 1 FROM webhooks WHERE enabled) AS are_wanted, COALESCE(abs(hub_now() - (SELECT time FROM hub_event_inbox ORDER BY number LIMIT 1)), 0) AS age
SELECT MIN(soonest.next_at) AS next FROM webhooks, LATERAL ( SELECT d.next_at FROM webhook_deliveries d WHERE d.webhook = webhooks.id AND d.state = 'pending' ORDER BY d.next_at LIMIT 1) AS soonest WHERE enabled
SELECT SUM(bytes)::bigint AS bytes, SUM(files)::bigint AS files FROM ( SELECT bytes, files FROM usage WHERE kind = $1 AND owner = $2 UNION ALL SELECT bytes, files FROM intents WHERE kind = $1 AND owner = $2) AS taken
SELECT agent_id FROM approvals WHERE id = $1
SELECT agreed, created_at, used_at, used_at < hub_now() - 60000 AS is_due FROM mcp_sessions WHERE hash = $1 AND token = $2 AND GREATEST(used_at, COALESCE(stream_until, 0)) >= $3
SELECT answer FROM approvals WHERE id = $1
SELECT body, state, status, reply, (known.created_at < hub_now() - 60000 AND NOT EXISTS ( SELECT 1 FROM nodes WHERE nodes.id = known.node AND nodes.seen_at > clock_timestamp() - INTERVAL '1 minute')) AS is_gone FROM idempotency known WHERE token = $1 AND route = $2 AND key = $3
SELECT bytes, files FROM usage WHERE kind = $1 AND owner = $2
SELECT bytes, files, changed_us FROM share_usage WHERE group_id = $1
SELECT bytes, files, changed_us FROM share_usage WHERE group_id = $1 FOR UPDATE
SELECT chain FROM audit_chains
SELECT chain FROM audit_chains UNION SELECT chain FROM audit_anchors ORDER BY 1
SELECT columns.table_name::text AS table_name, column_name::text AS column_name, data_type::text AS data_type, is_identity::text AS is_identity FROM information_schema.columns JOIN information_schema.tables USING (table_schema, table_name) WHERE table_schema = current_schema() AND table_type = 'BASE TABLE' ORDER BY to_regclass(quote_ident(columns.table_name))::oid, ordinal_position
SELECT count(*) AS entries FROM share_entries WHERE group_id = $1 AND parent = $2
SELECT due, fired_at, run, skipped FROM fires WHERE tenant = $1 AND job = $2 AND due < $3 ORDER BY due DESC LIMIT $4
SELECT epoch, seq, node, manifest_sha256, files, bytes, (extract(epoch FROM created_at) * 1000)::bigint AS created_ms FROM checkpoints WHERE tenant_uid = $1 ORDER BY epoch DESC, seq DESC LIMIT $2
SELECT fanned_out FROM hub_event_head FOR UPDATE
SELECT g.*, m.access, COALESCE(u.bytes, 0) AS used_bytes FROM members m JOIN share_groups g ON g.id = m.group_id LEFT JOIN usage u ON u.kind = 'group' AND u.owner = g.id WHERE m.tenant = $1 AND m.group_id = $2
SELECT g.*, m.access, COALESCE(u.bytes, 0) AS used_bytes FROM members m JOIN share_groups g ON g.id = m.group_id LEFT JOIN usage u ON u.kind = 'group' AND u.owner = g.id WHERE m.tenant = $1 ORDER BY g.id
SELECT g.*, u.bytes AS used_bytes, u.files AS used_files FROM share_groups g LEFT JOIN usage u ON u.kind = 'group' AND u.owner = g.id WHERE TRUE AND g.id > $1 ORDER BY g.id LIMIT $2
SELECT g.*, u.bytes AS used_bytes, u.files AS used_files FROM share_groups g LEFT JOIN usage u ON u.kind = 'group' AND u.owner = g.id WHERE g.id = $1 FOR UPDATE OF g
SELECT group_id FROM share_usage ORDER BY group_id
SELECT hash FROM audit WHERE chain = $1 AND seq = $2
SELECT hash FROM mcp_sessions WHERE hash = ANY($1)
SELECT hub_now() AS now
SELECT id FROM chat_runs WHERE tenant = $1 ORDER BY begun_at, id LIMIT $2
SELECT id FROM share_groups WHERE id = $1 FOR NO KEY UPDATE
SELECT id FROM tenants WHERE id = $1 FOR NO KEY UPDATE
SELECT id FROM tenants WHERE key_hash = $1 UNION ALL SELECT id FROM tenants WHERE old_key_hash = $1 AND old_key_until > hub_now() LIMIT 1
SELECT id FROM tokens WHERE id = $1 FOR NO KEY UPDATE
SELECT id FROM webhooks WHERE enabled AND EXISTS ( SELECT 1 FROM webhook_deliveries d WHERE d.webhook = webhooks.id AND d.state = 'pending' AND d.next_at <= $1) ORDER BY id
SELECT id, display_name, conditions FROM tenants WHERE (strpos(conditions, '"type":"AgentHealthy","status":"False"') > 0 OR strpos(conditions, '"type":"LoginsValid","status":"False"') > 0 OR strpos(conditions, '"type":"PlatformsConnected","status":"False"') > 0 OR strpos(conditions, '"type":"StorageWithinQuota","status":"False"') > 0 OR strpos(conditions, '"reason":"near_quota"') > 0) AND deleted_at IS NULL AND id = ANY($1) ORDER BY id LIMIT $2
SELECT id, display_name, conditions FROM tenants WHERE (strpos(conditions, '"type":"AgentHealthy","status":"False"') > 0 OR strpos(conditions, '"type":"LoginsValid","status":"False"') > 0 OR strpos(conditions, '"type":"PlatformsConnected","status":"False"') > 0 OR strpos(conditions, '"type":"StorageWithinQuota","status":"False"') > 0 OR strpos(conditions, '"reason":"near_quota"') > 0) AND deleted_at IS NULL ORDER BY id LIMIT $1
SELECT id, event, body, time FROM run_events WHERE run = $1 AND id > $2 ORDER BY id LIMIT $3
SELECT id, expires_at, unlimited, expires_at IS NULL OR expires_at > hub_now() AS is_valid FROM tokens WHERE unlimited OR id = $1 ORDER BY id FOR UPDATE
SELECT id, linked_home, status, access_status FROM tenants WHERE deleted_at IS NULL AND id > $1 ORDER BY id LIMIT $2
SELECT id, tenant, status, created_at, ended_at, usage, error FROM runs WHERE ended_at IS NOT NULL AND ended_at >= $1 ORDER BY ended_at DESC LIMIT $2
SELECT id, tenant, status, created_at, ended_at, usage, error FROM unnest($1::TEXT[]) AS asked (wanted) CROSS JOIN LATERAL (SELECT * FROM runs WHERE tenant = asked.wanted ORDER BY number DESC LIMIT $2) AS last_runs WHERE ended_at IS NOT NULL AND ended_at >= $3 ORDER BY ended_at DESC LIMIT $4
SELECT id, version, started_at, capacity, draining, (EXTRACT(EPOCH FROM seen_at) * 1000)::BIGINT AS seen_at, (EXTRACT(EPOCH FROM clock_timestamp() - seen_at) * 1000)::BIGINT AS unseen, (SELECT COUNT(*) FROM leases WHERE leases.node = nodes.id AND expires_at > clock_timestamp()) AS tenants FROM nodes ORDER BY id
SELECT j.next FROM job_times j JOIN tenants t ON t.id = j.tenant JOIN leases l ON l.tenant = j.tenant WHERE j.next IS NOT NULL AND t.deleted_at IS NULL AND l.node = $1 ORDER BY j.next LIMIT 1
SELECT j.next FROM job_times j WHERE j.next IS NOT NULL AND EXISTS (SELECT 1 FROM leases WHERE node = $1) AND (SELECT l.node FROM leases l WHERE l.tenant = j.tenant) = $1 AND (SELECT t.deleted_at IS NULL FROM tenants t WHERE t.id = j.tenant) ORDER BY j.next LIMIT 1
SELECT j.tenant, j.job, j.next FROM job_times j JOIN tenants t ON t.id = j.tenant WHERE j.next IS NOT NULL AND t.deleted_at IS NULL
SELECT j.tenant, j.job, j.next FROM job_times j JOIN tenants t ON t.id = j.tenant WHERE j.next IS NOT NULL AND t.deleted_at IS NULL AND (j.next, j.tenant, j.job) > ($1, $2, $3) ORDER BY j.next, j.tenant, j.job LIMIT $4
SELECT j.tenant, j.job, j.next FROM job_times j JOIN tenants t ON t.id = j.tenant WHERE j.next IS NOT NULL AND t.deleted_at IS NULL AND j.tenant = ANY($1) AND (j.next, j.tenant, j.job) > ($2, $3, $4) ORDER BY j.next, j.tenant, j.job LIMIT $5
SELECT j.tenant, j.job, j.next FROM job_times j JOIN tenants t ON t.id = j.tenant WHERE t.deleted_at IS NULL
SELECT j.tenant, j.job, j.next FROM job_times j JOIN tenants t ON t.id = j.tenant WHERE t.deleted_at IS NULL AND (j.tenant, j.job) > ($1, $2) ORDER BY j.tenant, j.job LIMIT $3
SELECT j.tenant, j.job, j.next FROM job_times j JOIN tenants t ON t.id = j.tenant WHERE t.deleted_at IS NULL AND j.next IS NOT NULL AND (j.next, j.tenant, j.job) > ($1, $2, $3) ORDER BY j.next, j.tenant, j.job LIMIT $4
SELECT j.tenant, j.job, j.next FROM job_times j JOIN tenants t ON t.id = j.tenant WHERE t.deleted_at IS NULL AND j.next IS NOT NULL AND j.tenant = ANY($1) AND (j.next, j.tenant, j.job) > ($2, $3, $4) ORDER BY j.next, j.tenant, j.job LIMIT $5
SELECT j.tenant, j.job, j.next FROM job_times j JOIN tenants t ON t.id = j.tenant WHERE t.deleted_at IS NULL AND j.tenant = ANY($1) AND (j.tenant, j.job) > ($2, $3) ORDER BY j.tenant, j.job LIMIT $4
SELECT j.tenant, j.job, j.next, (SELECT MAX(f.due) FROM fires f WHERE f.tenant = j.tenant AND f.job = j.job) AS last_fired, EXISTS (SELECT 1 FROM runs r WHERE r.tenant = j.tenant AND r.ended_at IS NULL AND r.job = j.job) AS under_way FROM job_times j JOIN tenants t ON t.id = j.tenant JOIN leases l ON l.tenant = j.tenant WHERE j.next <= $1 AND t.deleted_at IS NULL AND l.node = $3 ORDER BY j.next LIMIT $2
SELECT j.tenant, j.job, j.next, (SELECT MAX(f.due) FROM fires f WHERE f.tenant = j.tenant AND f.job = j.job) AS last_fired, EXISTS (SELECT 1 FROM runs r WHERE r.tenant = j.tenant AND r.ended_at IS NULL AND r.job = j.job) AS under_way FROM job_times j WHERE j.next <= $1 AND (SELECT l.node FROM leases l WHERE l.tenant = j.tenant) = $3 AND (SELECT t.deleted_at IS NULL FROM tenants t WHERE t.id = j.tenant) ORDER BY j.next LIMIT $2
SELECT job, next, schedule_hash FROM job_times WHERE tenant = $1 ORDER BY job
SELECT key_sealed FROM tenants WHERE id = $1
SELECT kind, SUM(bytes)::bigint AS bytes, SUM(files)::bigint AS files FROM usage GROUP BY kind
SELECT kind, owner, bytes, files FROM usage ORDER BY bytes DESC, owner LIMIT $1
SELECT l.runs_per_day, l.tokens_per_day, COALESCE(d.runs, 0) AS runs, COALESCE(d.tokens, 0) AS tokens FROM (SELECT $1::TEXT AS tenant) AS asked LEFT JOIN tenant_limits l ON l.tenant = asked.tenant LEFT JOIN limit_days d ON d.tenant = asked.tenant AND d.day = $2
SELECT last FROM hub_event_head FOR UPDATE
SELECT leases.tenant, tenants.generation, tenants.access_status = 'blocked' AS blocked, tenants.deleted_at IS NOT NULL AS deleted FROM leases JOIN tenants ON tenants.id = leases.tenant WHERE leases.node = $1
SELECT model AS key, model, SUM(runs)::BIGINT AS runs, SUM(tool_calls)::BIGINT AS tool_calls, SUM(input_tokens)::BIGINT AS input_tokens, SUM(output_tokens)::BIGINT AS output_tokens, SUM(cached_tokens)::BIGINT AS cached_tokens FROM usage_days WHERE day BETWEEN $1 AND $2 AND tenant COLLATE "C" = ANY($3) GROUP BY 1, 2 HAVING SUM(runs) > 0 ORDER BY 1, 2
SELECT model AS key, model, SUM(runs)::BIGINT AS runs, SUM(tool_calls)::BIGINT AS tool_calls, SUM(input_tokens)::BIGINT AS input_tokens, SUM(output_tokens)::BIGINT AS output_tokens, SUM(cached_tokens)::BIGINT AS cached_tokens FROM usage_totals WHERE day BETWEEN $1 AND $2 GROUP BY 1, 2 HAVING SUM(runs) > 0 ORDER BY 1, 2
SELECT name FROM condemned_blobs ORDER BY name LIMIT $1
SELECT name FROM group_skills WHERE group_id = $1 ORDER BY name
SELECT name, description, version, files, bytes, revision, updated_at, updated_by FROM library_skills WHERE name > $1 ORDER BY name LIMIT $2
SELECT name, last4, updated_at FROM env WHERE tenant = $1 ORDER BY name
SELECT name, revision FROM library_skills WHERE name = ANY($1)
SELECT name, revision FROM provided_skills WHERE tenant = $1
SELECT name, sealed FROM env WHERE tenant = $1 ORDER BY name
SELECT node, epoch FROM leases WHERE tenant = $1 AND node IS NOT NULL AND expires_at > clock_timestamp()
SELECT number FROM hub_event_inbox ORDER BY number LIMIT 1
SELECT number, status, last_event, (SELECT MIN(id) FROM run_events WHERE run = number) AS oldest FROM runs WHERE id = $1 AND tenant = $2
SELECT path, is_dir, parts, part_sizes, version, modified_us FROM share_entries WHERE group_id = $1 AND parent = $2 ORDER BY is_dir DESC, path LIMIT $3
SELECT path, is_dir, parts, part_sizes, version, modified_us FROM share_entries WHERE group_id = $1 AND path = $2
SELECT path, is_dir, parts, part_sizes, version, modified_us FROM share_entries WHERE group_id = $1 AND path > $2 AND path >= $3 AND ($4::text IS NULL OR path < $4) ORDER BY path LIMIT $5
SELECT pg_backend_pid()::text
SELECT pg_current_snapshot()::text AS snapshot, pg_postmaster_start_time()::text AS server_start
SELECT pg_current_snapshot()::text AS snapshot, pg_postmaster_start_time()::text AS server_start, ARRAY(SELECT subject FROM changes WHERE writer >= pg_snapshot_xmin($1::text::pg_snapshot) AND NOT pg_visible_in_snapshot(writer, $1::text::pg_snapshot) ORDER BY writer LIMIT 1001) AS subjects
SELECT removed_us, min(path) AS path, (array_agg(is_dir ORDER BY path))[1] AS is_dir, count(*) AS files, coalesce(sum(size), 0)::bigint AS bytes FROM share_trash WHERE group_id = $1 AND removed_us = $2 GROUP BY removed_us
SELECT removed_us, min(path) AS path, (array_agg(is_dir ORDER BY path))[1] AS is_dir, count(*) AS files, coalesce(sum(size), 0)::bigint AS bytes FROM share_trash WHERE group_id = $1 GROUP BY removed_us ORDER BY removed_us DESC LIMIT $2
SELECT revision FROM applied WHERE kind = $1 AND tenant = $2
SELECT revision FROM library_skills WHERE name = $1 FOR UPDATE
SELECT seq, change, settled FROM intents WHERE chain = $1 ORDER BY seq
SELECT seq, hash FROM (SELECT seq, hash FROM audit WHERE chain = $1 ORDER BY seq DESC LIMIT 1) AS last UNION ALL SELECT seq, hash FROM audit_anchors WHERE chain = $1 ORDER BY seq DESC LIMIT 1
SELECT seq, hash FROM audit WHERE chain = $1 AND seq < LEAST( (SELECT MAX(seq) FROM audit WHERE chain = $1), (SELECT MIN(seq) FROM audit WHERE chain = $1) + $3, (SELECT seq FROM audit WHERE chain = $1 AND time >= $2 ORDER BY seq LIMIT 1), (SELECT MIN(seq) FROM intents WHERE chain = $1 AND NOT settled)) ORDER BY seq DESC LIMIT 1
SELECT seq, hash FROM audit_anchors WHERE chain = $1
SELECT seq, time, tenant, actor, action, decision, request_id, text, hash FROM audit WHERE chain = $1 AND seq > $2 AND seq <= $3 ORDER BY seq LIMIT $4
SELECT set_config('synchronous_commit', 'off', TRUE), pg_notify($1, $2)
SELECT status, COUNT(*) AS runs FROM runs WHERE ended_at IS NULL AND tenant = $1 GROUP BY status
SELECT status, COUNT(*) AS runs FROM runs WHERE ended_at IS NULL GROUP BY status
SELECT status, COUNT(*) AS tenants FROM tenants GROUP BY status
SELECT status, COUNT(*) AS tenants FROM tenants WHERE id = ANY($1) GROUP BY status
SELECT t.*, u.bytes AS used_bytes, u.files AS used_files, COALESCE((SELECT json_agg(json_build_object('id', m.group_id, 'access', m.access)) FROM members m WHERE m.tenant = t.id)::text, '[]') AS memberships FROM tenants t LEFT JOIN usage u ON u.kind = 'tenant' AND u.owner = t.id WHERE TRUE AND t.deleted_at IS NULL ORDER BY t.id LIMIT $1
SELECT t.*, u.bytes AS used_bytes, u.files AS used_files, COALESCE((SELECT json_agg(json_build_object('id', m.group_id, 'access', m.access)) FROM members m WHERE m.tenant = t.id)::text, '[]') AS memberships FROM tenants t LEFT JOIN usage u ON u.kind = 'tenant' AND u.owner = t.id WHERE TRUE AND t.status = $1 AND t.id = ANY($2) AND (strpos(t.id, $3) > 0 OR strpos(lower(t.display_name), $4) > 0) AND t.flavor = $5 AND strpos(t.labels, $6) > 0 AND (t.labels::jsonb ->> $7) = $8 AND t.id > $9 ORDER BY t.id LIMIT $10
SELECT t.*, u.bytes AS used_bytes, u.files AS used_files, COALESCE((SELECT json_agg(json_build_object('id', m.group_id, 'access', m.access)) FROM members m WHERE m.tenant = t.id)::text, '[]') AS memberships FROM tenants t LEFT JOIN usage u ON u.kind = 'tenant' AND u.owner = t.id WHERE TRUE AND t.status = $1 AND t.id = ANY($2) AND (strpos(t.id, $3) > 0 OR strpos(lower(t.display_name), $4) > 0) AND t.flavor = $5 AND strpos(t.labels, $6) > 0 AND (t.labels::jsonb ->> $7) IS NOT NULL AND t.id > $8 ORDER BY t.id LIMIT $9
SELECT t.*, u.bytes AS used_bytes, u.files AS used_files, COALESCE((SELECT json_agg(json_build_object('id', m.group_id, 'access', m.access)) FROM members m WHERE m.tenant = t.id)::text, '[]') AS memberships FROM tenants t LEFT JOIN usage u ON u.kind = 'tenant' AND u.owner = t.id WHERE TRUE AND t.status = 'deleted' AND t.deleted_at < $1 AND t.id = ANY($2) AND (strpos(t.id, $3) > 0 OR strpos(lower(t.display_name), $4) > 0) AND t.flavor = $5 AND strpos(t.labels, $6) > 0 AND (t.labels::jsonb ->> $7) = $8 AND t.id > $9 ORDER BY t.id LIMIT $10
SELECT t.*, u.bytes AS used_bytes, u.files AS used_files, COALESCE((SELECT json_agg(json_build_object('id', m.group_id, 'access', m.access)) FROM members m WHERE m.tenant = t.id)::text, '[]') AS memberships FROM tenants t LEFT JOIN usage u ON u.kind = 'tenant' AND u.owner = t.id WHERE TRUE AND t.status = 'deleted' AND t.deleted_at < $1 AND t.id = ANY($2) AND (strpos(t.id, $3) > 0 OR strpos(lower(t.display_name), $4) > 0) AND t.flavor = $5 AND strpos(t.labels, $6) > 0 AND (t.labels::jsonb ->> $7) IS NOT NULL AND t.id > $8 ORDER BY t.id LIMIT $9
SELECT tenant COLLATE "C" AS key, model, SUM(runs)::BIGINT AS runs, SUM(tool_calls)::BIGINT AS tool_calls, SUM(input_tokens)::BIGINT AS input_tokens, SUM(output_tokens)::BIGINT AS output_tokens, SUM(cached_tokens)::BIGINT AS cached_tokens FROM usage_days WHERE day BETWEEN $1 AND $2 AND tenant COLLATE "C" = ANY($3) GROUP BY 1, 2 HAVING SUM(runs) > 0 ORDER BY 1, 2
SELECT tenant COLLATE "C" AS key, model, SUM(runs)::BIGINT AS runs, SUM(tool_calls)::BIGINT AS tool_calls, SUM(input_tokens)::BIGINT AS input_tokens, SUM(output_tokens)::BIGINT AS output_tokens, SUM(cached_tokens)::BIGINT AS cached_tokens FROM usage_days WHERE day BETWEEN $1 AND $2 GROUP BY 1, 2 HAVING SUM(runs) > 0 ORDER BY 1, 2
SELECT tenant FROM runs JOIN leases USING (tenant) WHERE status = 'queued' AND leases.node = $2 GROUP BY tenant ORDER BY MIN(number) LIMIT $1
SELECT tenant, access FROM members WHERE group_id = $1 AND tenant > $2 ORDER BY tenant LIMIT $3
SELECT tenant, id FROM runs WHERE ended_at IS NULL AND status = 'stopping' AND node = $1
SELECT tenant, modified, size, readable FROM job_files
SELECT text, hash FROM audit WHERE TRUE
SELECT text, hash FROM audit WHERE TRUE AND actor = $1 AND action = $2 AND decision = $3 AND request_id = $4 AND time >= $5 AND time < $6 AND (time, chain, seq) < ($7, $8, $9) ORDER BY time DESC, chain DESC, seq DESC LIMIT $10
SELECT text, hash FROM audit WHERE TRUE AND actor = $1 AND action = $2 AND decision = $3 AND request_id = $4 AND time >= $5 AND time < $6 AND (time, chain, seq) > ($7, $8, $9) ORDER BY time ASC, chain ASC, seq ASC LIMIT $10
SELECT text, hash FROM audit WHERE TRUE AND tenant = $1 AND tenant = ANY($2) AND actor = $3 AND action = $4 AND decision = $5 AND request_id = $6 AND time >= $7 AND time < $8 AND (time, chain, seq) < ($9, $10, $11) ORDER BY time DESC, chain DESC, seq DESC LIMIT $12
SELECT text, hash FROM audit WHERE TRUE AND tenant = $1 AND tenant = ANY($2) AND actor = $3 AND action = $4 AND decision = $5 AND request_id = $6 AND time >= $7 AND time < $8 AND (time, chain, seq) > ($9, $10, $11) ORDER BY time ASC, chain ASC, seq ASC LIMIT $12
SELECT text, hash FROM audit WHERE chain = $1 AND seq = $2
SELECT time, chain, seq FROM audit WHERE TRUE
SELECT time, chain, seq FROM audit WHERE TRUE AND time >= $1 AND time < $2 AND (time, chain, seq) < ($3, $4, $5) ORDER BY time DESC, chain DESC, seq DESC LIMIT 1 OFFSET $6
SELECT time, chain, seq FROM audit WHERE TRUE AND time >= $1 AND time < $2 AND (time, chain, seq) > ($3, $4, $5) ORDER BY time ASC, chain ASC, seq ASC LIMIT 1 OFFSET $6
SELECT to_regclass('hub_schema') IS NOT NULL
SELECT value FROM meta WHERE name = $1
SELECT version, readable_since FROM hub_schema
SELECT work.tenant FROM ( SELECT tenant FROM runs WHERE ended_at IS NULL UNION SELECT tenant FROM job_times WHERE next <= (SELECT (EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::BIGINT + $4) UNION SELECT tenant FROM leases WHERE always_on AND COALESCE( (SELECT content::jsonb #> '{features,enabled}' FROM documents WHERE kind = 'agent-policy' ORDER BY revision DESC LIMIT 1) ? 'messaging', TRUE) UNION SELECT id FROM tenants WHERE status = 'provisioning' ) work JOIN tenants ON tenants.id = work.tenant AND tenants.deleted_at IS NULL LEFT JOIN leases ON leases.tenant = work.tenant WHERE NOT work.tenant = ANY($2) AND (leases.node IS NULL OR leases.node = $1 OR leases.expires_at <= clock_timestamp()) LIMIT $3
UPDATE approvals SET delivered = TRUE, answer = NULL WHERE id = $1
UPDATE approvals SET delivered = TRUE, answer = NULL, state = CASE WHEN state = 'pending' THEN 'void' ELSE state END WHERE run = $1 AND (NOT delivered OR state = 'pending')
UPDATE approvals SET delivered = TRUE, state = 'void' WHERE run = $1 AND state = 'pending'
UPDATE approvals SET state = $2, choice = $3, decided_by = $4, decided_at = hub_now(), reason = $5, answer = $6 WHERE id = $1 AND state = 'pending' RETURNING *
UPDATE approvals SET state = 'decided', choice = earlier.choice, decided_by = earlier.decided_by, decided_at = hub_now(), reason = earlier.reason, answer = earlier.answer FROM (SELECT choice, decided_by, reason, answer FROM approvals WHERE id = $1) AS earlier WHERE id = $2
UPDATE commands SET state = 'answered', reply = $2 WHERE id = $1
UPDATE commands SET state = 'running' WHERE id IN ( SELECT id FROM commands WHERE node = $1 AND state = 'waiting' AND expires_at > clock_timestamp() LIMIT $2 FOR UPDATE SKIP LOCKED ) RETURNING id, tenant, request
UPDATE console_sessions SET used_at = hub_now() WHERE id = $1
UPDATE hub_event_head SET fanned_out = $1
UPDATE hub_event_head SET fanned_out = last WHERE NOT EXISTS (SELECT 1 FROM webhooks WHERE enabled)
UPDATE hub_event_head SET last = $1
UPDATE idempotency SET state = $4 WHERE token = $1 AND route = $2 AND key = $3 AND state IN ('running', 'begun') AND node = $5
UPDATE idempotency SET state = 'answered', status = $4, reply = $5 WHERE token = $1 AND route = $2 AND key = $3 AND node = $6
UPDATE idempotency SET state = 'lost' WHERE node = $1 AND state IN ('begun', 'effected')
UPDATE intents SET settled = TRUE, bytes = 0, files = 0 WHERE chain = $1 AND seq = $2 AND NOT settled
UPDATE job_times SET next = $4 WHERE tenant = $1 AND job = $2 AND next <= $3
UPDATE job_times SET next = $4, schedule_hash = $5 WHERE tenant = $1 AND job = $2 AND next = $3
UPDATE leases SET always_on = $2 WHERE tenant = $1 AND always_on <> $2
UPDATE leases SET expires_at = clock_timestamp() + $4 * INTERVAL '1 millisecond' FROM unnest($2::TEXT[], $3::BIGINT[]) AS held (tenant, epoch) WHERE leases.tenant = held.tenant AND leases.epoch = held.epoch AND leases.node = $1 AND leases.expires_at > clock_timestamp() RETURNING leases.tenant
UPDATE leases SET node = NULL, expires_at = clock_timestamp() FROM unnest($2::TEXT[], $3::BIGINT[]) AS held (tenant, epoch) WHERE leases.tenant = held.tenant AND leases.epoch = held.epoch AND leases.node = $1
UPDATE mcp_sessions AS known SET stream_until = uses.stream_until, used_at = GREATEST(known.used_at, uses.used_at) FROM unnest($1::bytea[], $2::bigint[], $3::bigint[]) AS uses (hash, stream_until, used_at) WHERE known.hash = uses.hash RETURNING known.hash
UPDATE mcp_sessions SET used_at = hub_now() WHERE hash = $1
UPDATE nodes SET draining = FALSE WHERE id = $1 AND draining
UPDATE nodes SET draining = TRUE WHERE id = $1
UPDATE runs SET node = $2 WHERE tenant = $1 AND ended_at IS NULL AND status <> 'queued' RETURNING *
UPDATE runs SET status = $2, output = $3, usage = $4, error = $5, called_tool = $6, agent_run = $7, agent_sequence = $8, last_event = $9, updated_at = $10, ended_at = $11, attempt = $12, node = $13, started_at = $14 WHERE number = $1
UPDATE runs SET status = 'running', node = $3, started_at = hub_now(), updated_at = hub_now() WHERE number = (SELECT number FROM runs WHERE tenant = $1 AND status = 'queued' ORDER BY number LIMIT 1 FOR UPDATE SKIP LOCKED) AND $2 > (SELECT COUNT(*) FROM runs WHERE tenant = $1 AND ended_at IS NULL AND status <> 'queued') RETURNING *
UPDATE runs SET tool_calls = tool_calls + $2, model = COALESCE($3, model) WHERE number = $1
UPDATE share_entries SET path = $2 || substr(path, length($3) + 1), parent = $2 || substr(parent, length($3) + 1) WHERE group_id = $1 AND path >= $4 AND path < $5
UPDATE share_entries SET path = $2, parent = $3, version = nextval('share_versions') WHERE group_id = $1 AND path = $4 RETURNING path, is_dir, parts, part_sizes, version, modified_us
UPDATE share_groups SET display_name = $2, kind = $3, quota_bytes = $4, revision = revision + 1, updated_at = $5 WHERE id = $1
UPDATE share_trash SET group_id = '' WHERE group_id = $1
UPDATE share_usage SET bytes = $2, files = $3, changed_us = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint WHERE group_id = $1
UPDATE tenants SET access_status = $2, access_message = $3, access_reason = $4, access_at = $5, access_by = $6, revision = revision + 1, updated_at = $5 WHERE id = $1
UPDATE tenants SET generation = generation + 1, revision = revision + 1, updated_at = $2 WHERE id = $1
UPDATE tenants SET generation = generation + 1, revision = revision + 1, updated_at = $2 WHERE id = $1 AND deleted_at IS NULL
UPDATE tenants SET generation = generation + 1, revision = revision + 1, updated_at = $2 WHERE id IN (SELECT tenant FROM members WHERE group_id = $1)
UPDATE tenants SET key_hash = NULL, key_sealed = NULL, key_last4 = NULL, key_rotated_at = NULL, old_key_hash = NULL, old_key_until = NULL, generation = generation + 1, revision = revision + 1
UPDATE tenants SET observed_generation = $2 WHERE id = $1 AND observed_generation < $2
UPDATE tenants SET old_key_hash = CASE WHEN $6::bigint IS NULL THEN NULL ELSE key_hash END, old_key_until = $6, key_hash = $2, key_sealed = $3, key_last4 = $4, key_rotated_at = $5, generation = generation + 1, revision = revision + 1, updated_at = $5 WHERE id = $1
UPDATE tenants SET status = $2, conditions = $3, observed_generation = $4 WHERE id = $1
UPDATE tenants SET status = 'deleted', deleted_at = $2, revision = revision + 1, updated_at = $3 WHERE id = $1
UPDATE tenants SET status = 'ready', deleted_at = NULL, generation = generation + 1, revision = revision + 1, updated_at = $2 WHERE id = $1 AND status = 'deleted' AND deleted_at > 0
UPDATE tenants t SET display_name = COALESCE($3, display_name), flavor = COALESCE($4, flavor), agent = COALESCE($5, agent), storage = COALESCE($6, storage), browser = COALESCE($7, browser), labels = COALESCE($8, labels), generation = generation + 1, revision = revision + 1, updated_at = $9, observed_generation = CASE WHEN $10 = 'no agent' OR ($10 = 'nobody' AND observed_generation = generation) THEN generation + 1 ELSE observed_generation END FROM (SELECT $1::text AS id) c LEFT JOIN usage u ON u.kind = 'tenant' AND u.owner = c.id WHERE t.id = c.id AND status <> 'deleted' AND revision = COALESCE($2, revision) RETURNING t.*, u.bytes AS used_bytes, u.files AS used_files, COALESCE((SELECT json_agg(json_build_object('id', group_id, 'access', access)) FROM members WHERE tenant = $1)::text, '[]') AS memberships
UPDATE tokens SET last_used_at = GREATEST(COALESCE(last_used_at, 0), used.time) FROM unnest($1::text[], $2::bigint[]) AS used (id, time) WHERE tokens.id = used.id
UPDATE tokens SET old_hash = CASE WHEN $4::bigint IS NULL THEN NULL ELSE hash END, old_until = $4, hash = $2, last4 = $3 WHERE id = $1 RETURNING *
UPDATE webhook_deliveries SET next_at = $3 WHERE number IN ( SELECT number FROM webhook_deliveries WHERE webhook = $1 AND state = 'pending' AND next_at <= $2 ORDER BY next_at, number LIMIT $4 FOR UPDATE SKIP LOCKED) RETURNING number, id, body, attempts
UPDATE webhook_deliveries SET state = $2, next_at = $3, ended_at = $4, attempts = attempts + 1, last_status = $5, last_error = $6 WHERE id = $1 AND state = 'pending'
UPDATE webhook_deliveries SET state = 'pending', attempts = 0, next_at = $3, ended_at = NULL WHERE id = $1 AND webhook = $2 AND state <> 'pending' RETURNING *
UPDATE webhooks SET enabled = FALSE, revision = revision + 1, updated_at = $2 WHERE id = $1 AND enabled
UPDATE webhooks SET sealed = NULL, enabled = FALSE, revision = revision + 1
UPDATE webhooks SET url = COALESCE($2, url), events = COALESCE($3, events), tenants = $4, enabled = $5, since = COALESCE($6, since), sealed = COALESCE($7, sealed), revision = revision + 1, updated_at = $8 WHERE id = $1
WITH RECURSIVE known AS ( (SELECT tenant FROM usage_days WHERE tenant COLLATE "C" > $1 ORDER BY tenant COLLATE "C" LIMIT 1) UNION ALL SELECT (SELECT u.tenant FROM usage_days u WHERE u.tenant COLLATE "C" > known.tenant ORDER BY u.tenant COLLATE "C" LIMIT 1) FROM known WHERE known.tenant IS NOT NULL ) SELECT tenant FROM known WHERE tenant IS NOT NULL LIMIT $2
WITH back AS ( DELETE FROM share_trash WHERE group_id = $1 AND removed_us = $2 RETURNING path, is_dir, parts, part_sizes, size ), kept AS ( INSERT INTO share_entries (group_id, path, parent, is_dir, parts, part_sizes, size, modified_us) SELECT $1, path, regexp_replace(path, '/?[^/]*$', ''), is_dir, parts, part_sizes, size, (extract(epoch FROM statement_timestamp()) * 1000000)::bigint FROM back ) SELECT count(*) AS files, coalesce(sum(size), 0)::bigint AS bytes FROM back
WITH free AS ( SELECT tenant FROM leases WHERE tenant = ANY($1) AND (node IS NULL OR node = $2 OR expires_at <= clock_timestamp()) FOR UPDATE SKIP LOCKED ) UPDATE leases SET node = $2, epoch = epoch + 1, expires_at = clock_timestamp() + $3 * INTERVAL '1 millisecond' FROM free WHERE leases.tenant = free.tenant RETURNING leases.tenant, leases.epoch
WITH gone AS ( DELETE FROM share_entries WHERE group_id = $1 AND (path = $2 OR path >= $3 AND ($4::text IS NULL OR path < $4)) RETURNING path, is_dir, parts, part_sizes, size ), kept AS ( INSERT INTO share_trash (group_id, path, is_dir, parts, part_sizes, size, removed_us) SELECT $1, path, is_dir, parts, part_sizes, size, (extract(epoch FROM statement_timestamp()) * 1000000)::bigint FROM gone ) SELECT count(*) AS files, coalesce(sum(size), 0)::bigint AS bytes FROM gone
WITH locked AS MATERIALIZED ( SELECT id FROM tenants WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE) UPDATE tenants t SET display_name = COALESCE(c.display_name, t.display_name), flavor = COALESCE(c.flavor, t.flavor), agent = COALESCE(c.agent, t.agent), storage = COALESCE(c.storage, t.storage), browser = COALESCE(c.browser, t.browser), labels = COALESCE(c.labels, t.labels), generation = t.generation + 1, revision = t.revision + 1, updated_at = $10, observed_generation = CASE WHEN c.reach = 'no agent' OR (c.reach = 'nobody' AND t.observed_generation = t.generation) THEN t.generation + 1 ELSE t.observed_generation END FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[]) AS c (id, expected, display_name, flavor, agent, storage, browser, labels, reach) JOIN locked ON locked.id = c.id LEFT JOIN usage u ON u.kind = 'tenant' AND u.owner = c.id LEFT JOIN (SELECT tenant, json_agg(json_build_object('id', group_id, 'access', access))::text AS groups FROM members WHERE tenant = ANY($1) GROUP BY tenant) m ON m.tenant = c.id WHERE t.id = locked.id AND t.id = ANY($1) AND t.status <> 'deleted' AND t.revision = COALESCE(c.expected, t.revision) RETURNING t.*, u.bytes AS used_bytes, u.files AS used_files, COALESCE(m.groups, '[]') AS memberships
WITH moved AS ( DELETE FROM hub_event_inbox WHERE number = ANY(ARRAY( SELECT number FROM hub_event_inbox ORDER BY number LIMIT $2)) RETURNING number, type, tenant, data, time) INSERT INTO hub_events (id, type, tenant, data, time) SELECT $1 + row_number() OVER (ORDER BY number), type, tenant, data, time FROM moved
WITH old AS ( SELECT hash, hash || '.' || generation AS name FROM blobs WHERE touched_at <= clock_timestamp() - $1 * interval '1 millisecond' ORDER BY touched_at LIMIT $2 FOR UPDATE SKIP LOCKED ), unused AS ( SELECT hash, name FROM old WHERE NOT EXISTS (SELECT 1 FROM share_entries WHERE parts @> ARRAY[name]) AND NOT EXISTS (SELECT 1 FROM share_trash WHERE parts @> ARRAY[name]) ), seen AS ( UPDATE blobs SET touched_at = clock_timestamp() FROM old WHERE blobs.hash = old.hash AND NOT EXISTS (SELECT 1 FROM unused WHERE unused.hash = old.hash) ), gone AS ( DELETE FROM blobs USING unused WHERE blobs.hash = unused.hash RETURNING unused.name ) INSERT INTO condemned_blobs (name) SELECT name FROM gone ON CONFLICT DO NOTHING
