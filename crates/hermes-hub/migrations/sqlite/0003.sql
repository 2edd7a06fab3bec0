-- Portions of chains whose entries were filed by tenant: those behind the portion before, up to `last`. Times are those
-- of the oldest and the newest entry.
CREATE TABLE audit_portions (
    chain TEXT NOT NULL,
    last INTEGER NOT NULL,
    oldest INTEGER NOT NULL,
    newest INTEGER NOT NULL,
    PRIMARY KEY (chain, last)
) STRICT, WITHOUT ROWID;

-- Which entries of a portion are of which tenant. A portion is written at once and in this order, so that its pages are
-- full: in an index of all entries, those of thousands of tenants would write a page each.
CREATE TABLE audit_of_tenants (
    chain TEXT NOT NULL,
    portion INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    time INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (chain, portion, tenant, time, seq)
) STRICT, WITHOUT ROWID;

INSERT INTO audit_portions (chain, last, oldest, newest)
    SELECT chain, MAX(seq), MIN(time), MAX(time) FROM audit GROUP BY chain;
INSERT INTO audit_of_tenants (chain, portion, tenant, time, seq)
    SELECT audit.chain, audit_portions.last, tenant, time, seq FROM audit JOIN audit_portions USING (chain)
    WHERE tenant IS NOT NULL ORDER BY audit.chain, tenant, time, seq;
DROP INDEX audit_by_tenant;

-- Each chain is found by one look into the index, instead of by reading all of it.
CREATE VIEW audit_chains (chain) AS
    WITH RECURSIVE found (chain) AS (
        SELECT MIN(chain) FROM audit
        UNION ALL
        SELECT (SELECT MIN(chain) FROM audit WHERE chain > found.chain) FROM found WHERE found.chain IS NOT NULL
    )
    SELECT chain FROM found WHERE chain IS NOT NULL;
