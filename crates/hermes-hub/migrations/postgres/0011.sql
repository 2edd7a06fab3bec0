-- A statement that changes many tenants notes them at once.
DROP TRIGGER note_change ON tenants;
DROP TRIGGER note_change ON members;
DROP TRIGGER note_addition ON usage;
DROP TRIGGER note_change ON usage;
DROP FUNCTION note_tenant();

-- The tables name the tenant in different columns.
CREATE FUNCTION note_tenants() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF TG_TABLE_NAME = 'tenants' THEN
        INSERT INTO changes (subject) SELECT 'tenant:' || id FROM changed;
    ELSIF TG_TABLE_NAME = 'usage' THEN
        INSERT INTO changes (subject) SELECT 'tenant:' || owner FROM changed WHERE kind = 'tenant';
    ELSE
        INSERT INTO changes (subject) SELECT DISTINCT 'tenant:' || tenant FROM changed;
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER note_change AFTER UPDATE ON tenants REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION note_tenants();
CREATE TRIGGER note_removal AFTER DELETE ON tenants REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION note_tenants();
CREATE TRIGGER note_addition AFTER INSERT ON members REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION note_tenants();
CREATE TRIGGER note_change AFTER UPDATE ON members REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION note_tenants();
CREATE TRIGGER note_removal AFTER DELETE ON members REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION note_tenants();
CREATE TRIGGER note_addition AFTER INSERT ON usage REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION note_tenants();
CREATE TRIGGER note_change AFTER UPDATE ON usage REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION note_tenants();
CREATE TRIGGER note_removal AFTER DELETE ON usage REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION note_tenants();

-- Rows of these tables are there for a short time. They are cleared often, and their files keep their size: a file that
-- shrinks is locked meanwhile.
ALTER TABLE hub_event_inbox SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 100000, vacuum_truncate = false);
ALTER TABLE changes SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 100000, vacuum_truncate = false);
