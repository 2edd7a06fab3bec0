-- Tables that grow with what was done. By default, what is deleted of them is cleared once it is a fifth of the table,
-- which may be many days' worth: the indexes that find what is queued, due or old would lead through it all.
ALTER TABLE runs SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
    autovacuum_analyze_scale_factor = 0.05);
ALTER TABLE run_events SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05);
ALTER TABLE hub_events SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05);
ALTER TABLE webhook_deliveries SET (autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE fires SET (autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE idempotency SET (autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE audit SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05);
