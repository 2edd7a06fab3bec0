-- Which entries are of which tenant. Filled later than the log, many entries at once and in its order: entries of
-- thousands of tenants would else write a page each.
CREATE TABLE audit_of_tenants (
    tenant TEXT NOT NULL,
    time INTEGER NOT NULL,
    chain TEXT NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (tenant, time, chain, seq)
) STRICT, WITHOUT ROWID;

-- Up to where that was done in each chain.
CREATE TABLE audit_filed (
    chain TEXT PRIMARY KEY,
    seq INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO audit_of_tenants (tenant, time, chain, seq)
    SELECT tenant, time, chain, seq FROM audit INDEXED BY audit_by_tenant WHERE tenant IS NOT NULL
    ORDER BY tenant, time, chain, seq;
INSERT INTO audit_filed (chain, seq) SELECT chain, MAX(seq) FROM audit GROUP BY chain;
DROP INDEX audit_by_tenant;

-- Each chain is found by one look into the index, instead of by reading all of it.
CREATE VIEW audit_chains (chain) AS
    WITH RECURSIVE found (chain) AS (
        SELECT MIN(chain) FROM audit
        UNION ALL
        SELECT (SELECT MIN(chain) FROM audit WHERE chain > found.chain) FROM found WHERE found.chain IS NOT NULL
    )
    SELECT chain FROM found WHERE chain IS NOT NULL;
