-- What an operation on files changes, as JSON, so that the Hub after one that was killed finds what that left. `settled`:
-- the log says how it ended, and only its temporary files have to be removed.
ALTER TABLE intents ADD COLUMN change TEXT;
ALTER TABLE intents ADD COLUMN settled INTEGER NOT NULL DEFAULT 0;

-- Operations of an earlier version are known by their audit entry alone.
UPDATE intents SET change = (
    SELECT CASE
        WHEN action LIKE '%share%' AND instr(target, ':') > 0 THEN json_object(
            'kind', 'share',
            'group', substr(target, 1, instr(target, ':') - 1),
            'path', substr(target, instr(target, ':') + 1))
        WHEN tenant IS NOT NULL THEN json_object('kind', 'home', 'tenant', tenant)
    END
    FROM (
        SELECT action, tenant, json_extract(text, '$.target') AS target FROM audit
        WHERE audit.chain = intents.chain AND audit.seq = intents.seq
    )
);
