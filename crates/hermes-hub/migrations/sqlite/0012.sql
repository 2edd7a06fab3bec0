-- What the runs of all tenants used by day and model, so that nobody has to add up what each tenant used. Triggers keep
-- it equal to the sum of the tenants' rows, whoever writes those.

CREATE TABLE usage_totals (
    day INTEGER NOT NULL,
    model TEXT NOT NULL,
    runs INTEGER NOT NULL,
    tool_calls INTEGER NOT NULL,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cached_tokens INTEGER NOT NULL,
    PRIMARY KEY (day, model)
) STRICT, WITHOUT ROWID;

INSERT INTO usage_totals (day, model, runs, tool_calls, input_tokens, output_tokens, cached_tokens)
    SELECT day, model, SUM(runs), SUM(tool_calls), SUM(input_tokens), SUM(output_tokens), SUM(cached_tokens)
    FROM usage_days GROUP BY day, model;

CREATE TRIGGER usage_added AFTER INSERT ON usage_days BEGIN
    INSERT INTO usage_totals (day, model, runs, tool_calls, input_tokens, output_tokens, cached_tokens)
    VALUES (NEW.day, NEW.model, NEW.runs, NEW.tool_calls, NEW.input_tokens, NEW.output_tokens, NEW.cached_tokens)
    ON CONFLICT (day, model) DO UPDATE SET runs = runs + excluded.runs,
        tool_calls = tool_calls + excluded.tool_calls,
        input_tokens = input_tokens + excluded.input_tokens,
        output_tokens = output_tokens + excluded.output_tokens,
        cached_tokens = cached_tokens + excluded.cached_tokens;
END;

CREATE TRIGGER usage_changed AFTER UPDATE ON usage_days BEGIN
    UPDATE usage_totals SET runs = runs - OLD.runs, tool_calls = tool_calls - OLD.tool_calls,
        input_tokens = input_tokens - OLD.input_tokens, output_tokens = output_tokens - OLD.output_tokens,
        cached_tokens = cached_tokens - OLD.cached_tokens WHERE day = OLD.day AND model = OLD.model;
    INSERT INTO usage_totals (day, model, runs, tool_calls, input_tokens, output_tokens, cached_tokens)
    VALUES (NEW.day, NEW.model, NEW.runs, NEW.tool_calls, NEW.input_tokens, NEW.output_tokens, NEW.cached_tokens)
    ON CONFLICT (day, model) DO UPDATE SET runs = runs + excluded.runs,
        tool_calls = tool_calls + excluded.tool_calls,
        input_tokens = input_tokens + excluded.input_tokens,
        output_tokens = output_tokens + excluded.output_tokens,
        cached_tokens = cached_tokens + excluded.cached_tokens;
END;

CREATE TRIGGER usage_removed AFTER DELETE ON usage_days BEGIN
    UPDATE usage_totals SET runs = runs - OLD.runs, tool_calls = tool_calls - OLD.tool_calls,
        input_tokens = input_tokens - OLD.input_tokens, output_tokens = output_tokens - OLD.output_tokens,
        cached_tokens = cached_tokens - OLD.cached_tokens WHERE day = OLD.day AND model = OLD.model;
END;

-- What one tenant used, without a look at the others.
CREATE INDEX usage_days_by_tenant ON usage_days (tenant, day);
