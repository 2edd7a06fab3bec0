//! Scopes, and roles as names for sets of them.

use crate::api_types::vocabulary;

vocabulary! {
    /// A right of a token.
    Scope {
        /// Read tenants.
        TenantsRead = "tenants:read",
        /// Create and change tenants.
        TenantsWrite = "tenants:write",
        /// Delete and restore tenants.
        TenantsDelete = "tenants:delete",
        /// Block and unblock tenants.
        AccessWrite = "access:write",
        /// Start and stop agents.
        AgentWrite = "agent:write",
        /// Watch runs.
        RunsRead = "runs:read",
        /// Start and stop runs.
        RunsWrite = "runs:write",
        /// Decide on approvals.
        RunsApprove = "runs:approve",
        /// Read files of workspaces.
        FilesRead = "files:read",
        /// Change files of workspaces.
        FilesWrite = "files:write",
        /// Read conversations.
        SessionsRead = "sessions:read",
        /// Rename and delete conversations.
        SessionsWrite = "sessions:write",
        /// List variables.
        EnvRead = "env:read",
        /// Set variables.
        EnvWrite = "env:write",
        /// Read skills.
        SkillsRead = "skills:read",
        /// Install, remove, turn on and turn off skills.
        SkillsWrite = "skills:write",
        /// Read MCP servers and their tools.
        McpRead = "mcp:read",
        /// Add, change, remove, test and log in to MCP servers.
        McpWrite = "mcp:write",
        /// Call tools of MCP servers.
        McpCall = "mcp:call",
        /// Read shares.
        SharesRead = "shares:read",
        /// Change shares.
        SharesWrite = "shares:write",
        /// Read groups.
        GroupsRead = "groups:read",
        /// Change groups.
        GroupsWrite = "groups:write",
        /// Read cron jobs.
        CronRead = "cron:read",
        /// Change cron jobs.
        CronWrite = "cron:write",
        /// Run cron jobs now.
        CronRun = "cron:run",
        /// Read the configuration.
        ConfigRead = "config:read",
        /// Change the configuration.
        ConfigWrite = "config:write",
        /// Read policy and specialization.
        PolicyRead = "policy:read",
        /// Change policy and specialization.
        PolicyWrite = "policy:write",
        /// Copy context out of homes.
        SyncRun = "sync:run",
        /// Delete copied files that the home no longer has.
        SyncDelete = "sync:delete",
        /// Read webhooks and what was sent to them.
        WebhooksRead = "webhooks:read",
        /// Change webhooks.
        WebhooksWrite = "webhooks:write",
        /// Read the audit log.
        AuditRead = "audit:read",
        /// Create and revoke tokens, rotate keys.
        TokensAdmin = "tokens:admin",
    }
}

vocabulary! {
    /// A named set of scopes.
    Role {
        /// Reads everything, changes nothing.
        Viewer = "viewer",
        /// Manages tenants.
        Operator = "operator",
        /// May do everything.
        Admin = "admin",
    }
}

impl Role {
    pub fn scopes(self) -> Scopes {
        let viewer = || Scope::ALL.iter().filter(|scope| scope.is_read()).copied();
        match self {
            Self::Viewer => viewer().collect(),
            Self::Operator => viewer()
                .chain([
                    Scope::TenantsWrite,
                    Scope::AccessWrite,
                    Scope::AgentWrite,
                    Scope::RunsWrite,
                    Scope::RunsApprove,
                    Scope::FilesWrite,
                    Scope::SessionsWrite,
                    Scope::EnvWrite,
                    Scope::SkillsWrite,
                    Scope::McpWrite,
                    Scope::McpCall,
                    Scope::SharesWrite,
                    Scope::GroupsWrite,
                    Scope::CronWrite,
                    Scope::CronRun,
                    Scope::SyncRun,
                ])
                .collect(),
            Self::Admin => Scope::ALL.iter().copied().collect(),
        }
    }
}

impl Scope {
    pub fn is_read(self) -> bool {
        self.as_str().ends_with(":read")
    }

    fn bit(self) -> u64 {
        1 << self as u32
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Scopes(u64);

impl Scopes {
    pub fn contains(self, scope: Scope) -> bool {
        self.0 & scope.bit() != 0
    }

    pub fn is_subset_of(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// What a token has with this role and these further scopes.
    pub fn granted(role: Option<Role>, scopes: &[Scope]) -> Self {
        let scopes: Self = scopes.iter().copied().collect();
        match role {
            Some(role) => scopes.union(role.scopes()),
            None => scopes,
        }
    }

    /// In the order of the list of scopes.
    pub fn iter(self) -> impl Iterator<Item = Scope> {
        Scope::ALL
            .iter()
            .copied()
            .filter(move |scope| self.contains(*scope))
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        Self(scopes.into_iter().fold(0, |set, scope| set | scope.bit()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_viewer_has_every_read_and_nothing_else() {
        let scopes: Vec<_> = Role::Viewer.scopes().iter().collect();
        assert!(scopes.iter().all(|scope| scope.is_read()));
        let reads = Scope::ALL.iter().filter(|scope| scope.is_read());
        assert_eq!(scopes.len(), reads.count());
    }

    #[test]
    fn an_operator_neither_deletes_nor_rules() {
        let operator = Role::Operator.scopes();
        assert!(Role::Viewer.scopes().is_subset_of(operator));
        let missing: Vec<_> = Scope::ALL
            .iter()
            .filter(|scope| !operator.contains(**scope))
            .map(|scope| scope.as_str())
            .collect();
        assert_eq!(
            missing,
            [
                "tenants:delete",
                "config:write",
                "policy:write",
                "sync:delete",
                "webhooks:write",
                "tokens:admin"
            ]
        );
    }

    #[test]
    fn an_admin_may_do_everything() {
        assert!(
            Scope::ALL
                .iter()
                .all(|scope| Role::Admin.scopes().contains(*scope))
        );
        assert!(!Role::Admin.scopes().is_subset_of(Role::Operator.scopes()));
    }
}
