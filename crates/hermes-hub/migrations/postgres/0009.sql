-- Tenants that need somebody, without a look at all of them.

CREATE INDEX tenants_in_trouble ON tenants (id) WHERE
    strpos(conditions, '"type":"AgentHealthy","status":"False"') > 0
    OR strpos(conditions, '"type":"LoginsValid","status":"False"') > 0
    OR strpos(conditions, '"type":"PlatformsConnected","status":"False"') > 0
    OR strpos(conditions, '"type":"StorageWithinQuota","status":"False"') > 0
    OR strpos(conditions, '"reason":"near_quota"') > 0;
