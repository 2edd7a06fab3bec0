-- What nodes know of tenants, tokens and documents is good until it changes. A change notes itself, in the transaction
-- that makes it, whoever makes it: an older version of the program, or a person. Nodes ask for what has become visible
-- since they asked before. The table is lost with a crash of the server; nodes see that it was started again.
CREATE UNLOGGED TABLE changes (
    writer XID8 NOT NULL DEFAULT pg_current_xact_id(),
    subject TEXT NOT NULL
);
CREATE INDEX changes_by_writer ON changes (writer);

-- The tables name the tenant in different columns.
CREATE FUNCTION note_tenant() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF TG_TABLE_NAME = 'tenants' THEN
        INSERT INTO changes (subject) VALUES ('tenant:' || OLD.id);
    ELSIF TG_TABLE_NAME = 'usage' THEN
        INSERT INTO changes (subject) VALUES ('tenant:' || COALESCE(NEW.owner, OLD.owner));
    ELSE
        INSERT INTO changes (subject) VALUES ('tenant:' || COALESCE(NEW.tenant, OLD.tenant));
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION note_subject() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO changes (subject) VALUES (TG_ARGV[0]);
    RETURN NULL;
END $$;

-- Nobody knows what is not there, so new tenants and tokens change nothing.
CREATE TRIGGER note_change AFTER UPDATE OR DELETE ON tenants FOR EACH ROW EXECUTE FUNCTION note_tenant();
CREATE TRIGGER note_change AFTER INSERT OR UPDATE OR DELETE ON members FOR EACH ROW EXECUTE FUNCTION note_tenant();
CREATE TRIGGER note_addition AFTER INSERT ON usage FOR EACH ROW WHEN (NEW.kind = 'tenant') EXECUTE FUNCTION note_tenant();
CREATE TRIGGER note_change AFTER UPDATE OR DELETE ON usage FOR EACH ROW WHEN (OLD.kind = 'tenant')
    EXECUTE FUNCTION note_tenant();
-- Not when it was used.
CREATE TRIGGER note_change AFTER UPDATE OF name, role, scopes, tenants, cidrs, hash, old_hash, old_until, expires_at ON tokens
    FOR EACH STATEMENT EXECUTE FUNCTION note_subject('tokens');
CREATE TRIGGER note_removal AFTER DELETE ON tokens FOR EACH STATEMENT EXECUTE FUNCTION note_subject('tokens');
CREATE TRIGGER note_change AFTER INSERT OR UPDATE OR DELETE ON documents
    FOR EACH STATEMENT EXECUTE FUNCTION note_subject('documents');
