-- A text is looked for in the ids and names of all tenants: here they are close together, and rows need not be read.
CREATE INDEX tenants_by_name ON tenants (display_name, id);
