-- What the runs of all tenants used by day and model, so that nobody has to add up what each tenant used. A trigger keeps
-- it equal to the sum of the tenants' rows, also for programs of an earlier version.

-- A day and model has a row for each slot. A transaction writes to slots that no other one under way writes to, so that
-- nodes never wait for each other here.
CREATE TABLE usage_totals (
    day BIGINT NOT NULL,
    model TEXT COLLATE "C" NOT NULL,
    slot INTEGER NOT NULL,
    runs BIGINT NOT NULL,
    tool_calls BIGINT NOT NULL,
    input_tokens BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    cached_tokens BIGINT NOT NULL,
    PRIMARY KEY (day, model, slot)
) WITH (fillfactor = 50);

CREATE FUNCTION add_to_usage_totals() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    free INTEGER := 0;
BEGIN
    -- Held until the transaction ends. The first number says what such a lock is for.
    WHILE NOT pg_try_advisory_xact_lock(748351, free) LOOP
        free := free + 1;
    END LOOP;
    INSERT INTO usage_totals AS t (day, model, slot, runs, tool_calls, input_tokens, output_tokens, cached_tokens)
    SELECT day, model, free, SUM(runs), SUM(tool_calls), SUM(input_tokens), SUM(output_tokens), SUM(cached_tokens)
    FROM (
        SELECT NEW.day, NEW.model, NEW.runs, NEW.tool_calls, NEW.input_tokens, NEW.output_tokens, NEW.cached_tokens
        WHERE TG_OP <> 'DELETE'
        UNION ALL
        SELECT OLD.day, OLD.model, -OLD.runs, -OLD.tool_calls, -OLD.input_tokens, -OLD.output_tokens, -OLD.cached_tokens
        WHERE TG_OP <> 'INSERT'
    ) AS change (day, model, runs, tool_calls, input_tokens, output_tokens, cached_tokens)
    GROUP BY day, model
    ON CONFLICT (day, model, slot) DO UPDATE SET runs = t.runs + excluded.runs,
        tool_calls = t.tool_calls + excluded.tool_calls,
        input_tokens = t.input_tokens + excluded.input_tokens,
        output_tokens = t.output_tokens + excluded.output_tokens,
        cached_tokens = t.cached_tokens + excluded.cached_tokens;
    RETURN NULL;
END $$;

-- Nobody writes between the trigger and the sum: making the trigger locks the table.
CREATE TRIGGER keep_totals AFTER INSERT OR UPDATE OR DELETE ON usage_days
    FOR EACH ROW EXECUTE FUNCTION add_to_usage_totals();

INSERT INTO usage_totals (day, model, slot, runs, tool_calls, input_tokens, output_tokens, cached_tokens)
    SELECT day, model, 0, SUM(runs), SUM(tool_calls), SUM(input_tokens), SUM(output_tokens), SUM(cached_tokens)
    FROM usage_days GROUP BY day, model;

-- What one tenant used, without a look at the others.
CREATE INDEX usage_days_by_tenant ON usage_days (tenant COLLATE "C", day);
