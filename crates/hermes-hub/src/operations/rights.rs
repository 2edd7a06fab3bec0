//! Rights that members of an input need beyond those of their operation: one table, which the dispatcher uses for REST
//! and MCP alike.
//!
//! A member that does what another operation does needs that operation's right. Path arguments are not listed: they
//! select the tenant, which the gate has checked.

use serde_json::{Map, Value};

use super::{ArgumentLocation, Gate, HttpMethod, Operation, table};
use crate::{Problem, api_types::Scope, auth::Principal};

use MemberRight::{Inherited, Parts, SameAs, Scoped, WholeHub};

/// The right that a member needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberRight {
    /// The right of its own operation.
    Inherited,
    /// The right of this operation, which does the same.
    SameAs(&'static str),
    Scoped(Scope),
    /// A token that is not limited to some tenants.
    WholeHub,
    /// The rights of each of its own members.
    Parts(&'static [(&'static str, MemberRight)]),
}

/// The settings of an agent. Tokens limited to some tenants may not change time zone and limits.
const AGENT: MemberRight = Parts(&[
    ("model", Inherited),
    ("timezone", WholeHub),
    ("autoStart", Inherited),
    ("idleStopSeconds", WholeHub),
    ("maxConcurrentRuns", WholeHub),
]);
const STORAGE: MemberRight = Parts(&[("quotaBytes", WholeHub), ("filesQuota", WholeHub)]);
const BROWSER: MemberRight = Parts(&[
    ("enabled", Inherited),
    ("mode", Inherited),
    ("maxTabs", WholeHub),
]);
const PAGE_MEMBERS: &[(&str, MemberRight)] = &[("limit", Inherited), ("cursor", Inherited)];

/// By operation and member.
const RIGHTS: &[(&str, &[(&str, MemberRight)])] = &[
    (
        "list_tenants",
        &[
            ("status", Inherited),
            ("search", Inherited),
            ("limit", Inherited),
            ("cursor", Inherited),
        ],
    ),
    (
        "create_tenant",
        &[
            ("id", Inherited),
            ("displayName", Inherited),
            ("agent", AGENT),
            ("storage", STORAGE),
            ("browser", BROWSER),
            ("flavor", WholeHub),
            ("groups", SameAs("put_member")),
            ("env", SameAs("set_env")),
            ("labels", Inherited),
            ("start", SameAs("start_tenant_agent")),
        ],
    ),
    (
        "update_tenant",
        &[
            ("displayName", Inherited),
            ("agent", AGENT),
            ("storage", STORAGE),
            ("browser", BROWSER),
            ("flavor", WholeHub),
            ("groups", SameAs("put_member")),
            ("env", SameAs("set_env")),
            ("labels", Inherited),
        ],
    ),
    ("delete_tenant", &[("purge", Inherited)]),
    (
        "set_tenant_access",
        &[
            ("status", Inherited),
            ("message", Inherited),
            ("reason", Inherited),
        ],
    ),
    ("rotate_runtime_key", &[("grace", Inherited)]),
    (
        "set_skill_state",
        &[("enabled", Inherited), ("pinned", Inherited)],
    ),
    ("set_env", &[("value", Inherited)]),
    ("list_files", &[("path", Inherited)]),
    (
        "read_file",
        &[
            ("path", Inherited),
            ("offset", Inherited),
            ("limit", Inherited),
        ],
    ),
    (
        "download_file",
        &[("path", Inherited), ("format", Inherited)],
    ),
    ("list_share_files", &[("path", Inherited)]),
    (
        "read_share_file",
        &[
            ("path", Inherited),
            ("offset", Inherited),
            ("limit", Inherited),
        ],
    ),
    ("stat_share_path", &[("path", Inherited)]),
    (
        "grep_share",
        &[
            ("pattern", Inherited),
            ("path", Inherited),
            ("max", Inherited),
            ("ignore_case", Inherited),
        ],
    ),
    (
        "find_share_files",
        &[("path", Inherited), ("name", Inherited), ("max", Inherited)],
    ),
    (
        "write_share_file",
        &[
            ("path", Inherited),
            ("content", Inherited),
            ("mode", Inherited),
        ],
    ),
    ("make_share_dir", &[("path", Inherited)]),
    ("move_share_path", &[("from", Inherited), ("to", Inherited)]),
    (
        "remove_share_path",
        &[("path", Inherited), ("recursive", Inherited)],
    ),
    (
        "sync_context",
        &[
            ("destination", Inherited),
            ("dry_run", Inherited),
            ("delete", Scoped(Scope::SyncDelete)),
        ],
    ),
    ("create_tenant_cron", &[("job", Inherited)]),
    ("update_tenant_cron", &[("patch", Inherited)]),
    ("pause_tenant_cron", &[("reason", Inherited)]),
    ("patch_tenant_impact_config", &[("patch", Inherited)]),
    ("put_agent_policy", &[("policy", Inherited)]),
    ("put_agent_specialization", &[("content", Inherited)]),
    ("list_policy_revisions", PAGE_MEMBERS),
    ("list_impact_revisions", PAGE_MEMBERS),
    ("list_specialization_revisions", PAGE_MEMBERS),
    (
        "explain_policy",
        &[("tenant_id", Inherited), ("tool", Inherited)],
    ),
    (
        "create_run",
        &[
            ("input", Inherited),
            ("instructions", Inherited),
            ("session_id", Inherited),
            ("conversation_history", Inherited),
            ("metadata", Inherited),
            ("timeout_seconds", Inherited),
            ("retry_interrupted", Inherited),
        ],
    ),
    (
        "list_runs",
        &[
            ("status", Inherited),
            ("trigger", Inherited),
            ("limit", Inherited),
            ("cursor", Inherited),
        ],
    ),
    ("watch_run", &[("after", Inherited)]),
    (
        "decide_run",
        &[
            ("choice", Inherited),
            ("approval_id", Inherited),
            ("all", Inherited),
            ("reason", Inherited),
        ],
    ),
    ("list_approvals", PAGE_MEMBERS),
    (
        "respond_approval",
        &[("choice", Inherited), ("reason", Inherited)],
    ),
    ("list_groups", PAGE_MEMBERS),
    (
        "create_group",
        &[
            ("id", Inherited),
            ("displayName", Inherited),
            ("kind", Inherited),
            ("quotaBytes", WholeHub),
        ],
    ),
    (
        "update_group",
        &[
            ("displayName", Inherited),
            ("kind", Inherited),
            ("quotaBytes", WholeHub),
        ],
    ),
    ("delete_group", &[("force", Inherited)]),
    ("list_members", PAGE_MEMBERS),
    ("put_member", &[("access", Inherited)]),
    ("list_tokens", PAGE_MEMBERS),
    // The rights a token may grant depend on values: `auth::check_request` compares them.
    (
        "create_token",
        &[
            ("name", Inherited),
            ("role", Inherited),
            ("scopes", Inherited),
            ("tenants", Inherited),
            ("cidrs", Inherited),
            ("expiresAt", Inherited),
        ],
    ),
    ("rotate_token", &[("grace", Inherited)]),
    (
        "list_audit",
        &[
            ("tenant", Inherited),
            ("actor", Inherited),
            ("action", Inherited),
            ("decision", Inherited),
            ("request_id", Inherited),
            ("since", Inherited),
            ("until", Inherited),
            ("format", Inherited),
            ("limit", Inherited),
            ("cursor", Inherited),
        ],
    ),
];

pub(super) fn member_rights(operation: &str) -> &'static [(&'static str, MemberRight)] {
    let row = RIGHTS.iter().find(|(name, _)| *name == operation);
    row.map_or(&[], |(_, members)| members)
}

impl Operation {
    /// The right of a member of the input; `None` if it is not in the table.
    pub fn member_right(&self, name: &str) -> Option<MemberRight> {
        find_right(self.rights, name)
    }

    pub(crate) fn check_rights(
        &self,
        principal: &Principal,
        arguments: &Map<String, Value>,
    ) -> Result<(), Problem> {
        for (name, value) in arguments {
            match self.member_right(name) {
                Some(right) if is_requested(self.method(), value) => {
                    check_member(principal, name, right, Some(value))?;
                }
                None if self.is_outside_route(name) => {
                    let error = format!("`{}.{name}` is missing in the table of rights", self.name);
                    return Err(Problem::internal(&error));
                }
                Some(_) | None => {}
            }
        }
        Ok(())
    }

    fn is_outside_route(&self, name: &str) -> bool {
        let mut members = self.input.arguments.iter();
        members.any(|member| member.name == name && member.location != ArgumentLocation::Path)
    }
}

/// Whether a member requests something. In a patch, `null` and `false` do.
fn is_requested(verb: HttpMethod, value: &Value) -> bool {
    verb == HttpMethod::Patch || !matches!(value, Value::Null | Value::Bool(false))
}

fn find_right(members: &[(&str, MemberRight)], name: &str) -> Option<MemberRight> {
    let member = members.iter().find(|(known, _)| *known == name);
    member.map(|(_, right)| *right)
}

/// Checks a member. Without a value, or with one that is not an object, all its parts are checked.
fn check_member(
    principal: &Principal,
    name: &str,
    right: MemberRight,
    value: Option<&Value>,
) -> Result<(), Problem> {
    match right {
        Inherited => Ok(()),
        Scoped(scope) => require_scope(principal, name, scope),
        WholeHub => require_whole_hub(principal, name),
        SameAs(operation) => {
            let Some(operation) = table().find(operation) else {
                return Err(Problem::internal(&format!("there is no `{operation}`")));
            };
            if let Some(scope) = operation.required_scope() {
                require_scope(principal, name, scope)?;
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
                check_member(principal, &format!("{name}.{part}"), *right, value)?;
            }
            Ok(())
        }
    }
}

fn require_scope(principal: &Principal, name: &str, scope: Scope) -> Result<(), Problem> {
    if principal.scopes.contains(scope) {
        return Ok(());
    }
    let message = format!(
        "`{name}` needs the scope `{scope}`, which this token lacks; use one that has it, or leave `{name}` out"
    );
    Err(Problem::denied(message)
        .with_reason("scope")
        .with_detail(name, format!("needs `{scope}`")))
}

fn require_whole_hub(principal: &Principal, name: &str) -> Result<(), Problem> {
    if principal.tenants.is_none() {
        return Ok(());
    }
    let message = format!(
        "`{name}` is not for a token with a list of tenants; use one without, or leave `{name}` out"
    );
    Err(Problem::denied(message)
        .with_reason("tenants")
        .with_detail(name, "needs a token without a list of tenants"))
}
