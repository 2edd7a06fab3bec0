//! Rights that members of an input need beyond those of their operation: one table, which the dispatcher uses for REST
//! and MCP alike.
//!
//! A member that does what another operation does needs that operation's right. Path arguments are not listed: they
//! select the tenant, which the gate has checked.

use serde_json::{Map, Value};

use super::{Gate, Operation, Place, Verb, table};
use crate::{
    Problem,
    auth::{Principal, Scope},
};

use MemberRight::{Of, Own, Parts, Scoped, WholeHub};

/// The right that a member needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberRight {
    /// The right of its own operation.
    Own,
    /// The right of this operation, which does the same.
    Of(&'static str),
    Scoped(Scope),
    /// A token that is not limited to some tenants.
    WholeHub,
    /// The rights of each of its own members.
    Parts(&'static [(&'static str, MemberRight)]),
}

/// The settings of an agent. Tokens limited to some tenants may not change time zone and limits.
const AGENT: MemberRight = Parts(&[
    ("model", Own),
    ("timezone", WholeHub),
    ("autoStart", Own),
    ("idleStopSeconds", WholeHub),
    ("maxConcurrentRuns", WholeHub),
]);
const STORAGE: MemberRight = Parts(&[("quotaBytes", WholeHub), ("filesQuota", WholeHub)]);
const BROWSER: MemberRight = Parts(&[("enabled", Own), ("mode", Own), ("maxTabs", WholeHub)]);
const PAGE: &[(&str, MemberRight)] = &[("limit", Own), ("cursor", Own)];

/// By operation and member.
const RIGHTS: &[(&str, &[(&str, MemberRight)])] = &[
    (
        "list_tenants",
        &[
            ("status", Own),
            ("search", Own),
            ("limit", Own),
            ("cursor", Own),
        ],
    ),
    (
        "create_tenant",
        &[
            ("id", Own),
            ("displayName", Own),
            ("agent", AGENT),
            ("storage", STORAGE),
            ("browser", BROWSER),
            ("flavor", WholeHub),
            ("groups", Of("put_member")),
            ("env", Of("set_env")),
            ("labels", Own),
            ("start", Of("start_tenant_agent")),
        ],
    ),
    (
        "update_tenant",
        &[
            ("displayName", Own),
            ("agent", AGENT),
            ("storage", STORAGE),
            ("browser", BROWSER),
            ("flavor", WholeHub),
            ("groups", Of("put_member")),
            ("env", Of("set_env")),
            ("labels", Own),
        ],
    ),
    ("delete_tenant", &[("purge", Own)]),
    (
        "set_tenant_access",
        &[("status", Own), ("message", Own), ("reason", Own)],
    ),
    ("rotate_runtime_key", &[("grace", Own)]),
    ("set_skill_state", &[("enabled", Own), ("pinned", Own)]),
    ("set_env", &[("value", Own)]),
    ("list_files", &[("path", Own)]),
    (
        "read_file",
        &[("path", Own), ("offset", Own), ("limit", Own)],
    ),
    ("download_file", &[("path", Own), ("format", Own)]),
    ("list_share_files", &[("path", Own)]),
    (
        "read_share_file",
        &[("path", Own), ("offset", Own), ("limit", Own)],
    ),
    ("stat_share_path", &[("path", Own)]),
    (
        "grep_share",
        &[
            ("pattern", Own),
            ("path", Own),
            ("max", Own),
            ("ignore_case", Own),
        ],
    ),
    (
        "find_share_files",
        &[("path", Own), ("name", Own), ("max", Own)],
    ),
    (
        "write_share_file",
        &[("path", Own), ("content", Own), ("mode", Own)],
    ),
    ("make_share_dir", &[("path", Own)]),
    ("move_share_path", &[("from", Own), ("to", Own)]),
    ("remove_share_path", &[("path", Own), ("recursive", Own)]),
    (
        "sync_context",
        &[
            ("destination", Own),
            ("dry_run", Own),
            ("delete", Scoped(Scope::SyncDelete)),
        ],
    ),
    ("create_tenant_cron", &[("job", Own)]),
    ("update_tenant_cron", &[("patch", Own)]),
    ("pause_tenant_cron", &[("reason", Own)]),
    ("patch_tenant_impact_config", &[("patch", Own)]),
    ("put_agent_policy", &[("policy", Own)]),
    ("put_agent_specialization", &[("content", Own)]),
    ("list_policy_revisions", PAGE),
    ("list_impact_revisions", PAGE),
    ("list_specialization_revisions", PAGE),
    ("explain_policy", &[("tenant_id", Own), ("tool", Own)]),
    (
        "create_run",
        &[
            ("input", Own),
            ("instructions", Own),
            ("session_id", Own),
            ("conversation_history", Own),
            ("metadata", Own),
            ("timeout_seconds", Own),
            ("retry_interrupted", Own),
        ],
    ),
    (
        "list_runs",
        &[
            ("status", Own),
            ("trigger", Own),
            ("limit", Own),
            ("cursor", Own),
        ],
    ),
    ("watch_run", &[("after", Own)]),
    (
        "decide_run",
        &[
            ("choice", Own),
            ("approval_id", Own),
            ("all", Own),
            ("reason", Own),
        ],
    ),
    ("list_approvals", PAGE),
    ("respond_approval", &[("choice", Own), ("reason", Own)]),
    ("list_groups", PAGE),
    (
        "create_group",
        &[
            ("id", Own),
            ("displayName", Own),
            ("kind", Own),
            ("quotaBytes", WholeHub),
        ],
    ),
    (
        "update_group",
        &[
            ("displayName", Own),
            ("kind", Own),
            ("quotaBytes", WholeHub),
        ],
    ),
    ("delete_group", &[("force", Own)]),
    ("list_members", PAGE),
    ("put_member", &[("access", Own)]),
    ("list_tokens", PAGE),
    // The rights a token may grant depend on values: `auth::check_request` compares them.
    (
        "create_token",
        &[
            ("name", Own),
            ("role", Own),
            ("scopes", Own),
            ("tenants", Own),
            ("cidrs", Own),
            ("expiresAt", Own),
        ],
    ),
    ("rotate_token", &[("grace", Own)]),
    (
        "list_audit",
        &[
            ("tenant", Own),
            ("actor", Own),
            ("action", Own),
            ("decision", Own),
            ("request_id", Own),
            ("since", Own),
            ("until", Own),
            ("format", Own),
            ("limit", Own),
            ("cursor", Own),
        ],
    ),
];

pub(super) fn of(operation: &str) -> &'static [(&'static str, MemberRight)] {
    let found = RIGHTS.iter().find(|(name, _)| *name == operation);
    found.map_or(&[], |(_, members)| members)
}

impl Operation {
    /// The right of a member of the input; `None` if it is not in the table.
    pub fn member_right(&self, name: &str) -> Option<MemberRight> {
        find(self.rights, name)
    }

    pub(crate) fn check_rights(
        &self,
        principal: &Principal,
        arguments: &Map<String, Value>,
    ) -> Result<(), Problem> {
        for (name, value) in arguments {
            match self.member_right(name) {
                Some(right) if is_asked_for(self.verb(), value) => {
                    check(principal, name, right, Some(value))?;
                }
                None if self.is_in_no_route(name) => {
                    let error = format!("`{}.{name}` is missing in the table of rights", self.name);
                    return Err(Problem::internal(&error));
                }
                Some(_) | None => {}
            }
        }
        Ok(())
    }

    fn is_in_no_route(&self, name: &str) -> bool {
        let mut members = self.input.members.iter();
        members.any(|member| member.name == name && member.place != Place::Path)
    }
}

/// Whether a member requests something. In a patch, `null` and `false` do.
fn is_asked_for(verb: Verb, value: &Value) -> bool {
    verb == Verb::Patch || !matches!(value, Value::Null | Value::Bool(false))
}

fn find(members: &[(&str, MemberRight)], name: &str) -> Option<MemberRight> {
    let found = members.iter().find(|(known, _)| *known == name);
    found.map(|(_, right)| *right)
}

/// Checks a member. Without a value, or with one that is not an object, all its parts are checked.
fn check(
    principal: &Principal,
    name: &str,
    right: MemberRight,
    value: Option<&Value>,
) -> Result<(), Problem> {
    match right {
        Own => Ok(()),
        Scoped(scope) => require(principal, name, scope),
        WholeHub => require_whole_hub(principal, name),
        Of(operation) => {
            let Some(operation) = table().find(operation) else {
                return Err(Problem::internal(&format!("there is no `{operation}`")));
            };
            if let Some(scope) = operation.needed_scope() {
                require(principal, name, scope)?;
            }
            match operation.gate {
                Gate::WholeHub => require_whole_hub(principal, name),
                _ => Ok(()),
            }
        }
        Parts(parts) => {
            for (part, right) in parts {
                let value = match value {
                    Some(Value::Object(members)) => match members.get(*part) {
                        Some(value) => Some(value),
                        None => continue,
                    },
                    _ => None,
                };
                check(principal, &format!("{name}.{part}"), *right, value)?;
            }
            Ok(())
        }
    }
}

fn require(principal: &Principal, name: &str, scope: Scope) -> Result<(), Problem> {
    if principal.scopes.has(scope) {
        return Ok(());
    }
    let message = format!(
        "`{name}` needs the scope `{scope}`, which this token lacks; use one that has it, or leave `{name}` out"
    );
    Err(Problem::denied(message)
        .because("scope")
        .at(name, format!("needs `{scope}`")))
}

fn require_whole_hub(principal: &Principal, name: &str) -> Result<(), Problem> {
    if principal.tenants.is_none() {
        return Ok(());
    }
    let message = format!(
        "`{name}` is not for a token with a list of tenants; use one without, or leave `{name}` out"
    );
    Err(Problem::denied(message)
        .because("tenants")
        .at(name, "needs a token without a list of tenants"))
}
