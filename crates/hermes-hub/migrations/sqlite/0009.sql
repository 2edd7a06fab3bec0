-- Tenants that need somebody, without a look at all of them.

CREATE INDEX tenants_in_trouble ON tenants (id) WHERE
    instr(conditions, '"type":"AgentHealthy","status":"False"') > 0
    OR instr(conditions, '"type":"LoginsValid","status":"False"') > 0
    OR instr(conditions, '"type":"PlatformsConnected","status":"False"') > 0
    OR instr(conditions, '"type":"StorageWithinQuota","status":"False"') > 0
    OR instr(conditions, '"reason":"near_quota"') > 0;
