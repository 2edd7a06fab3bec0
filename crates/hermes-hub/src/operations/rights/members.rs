//! Which right each member of each input needs.

use super::MemberRight::{self, Inherited, Parts, SameAs, Scoped, WholeHub};
use crate::api_types::Scope;

/// The settings of an agent. Tokens limited to some tenants may not change time zone and limits.
const AGENT: MemberRight = Parts(&[
    ("model", Inherited),
    ("timezone", WholeHub),
    ("autoStart", Inherited),
    ("idleStopSeconds", WholeHub),
    ("maxConcurrentRuns", WholeHub),
]);
const WEBHOOK_MEMBERS: &[(&str, MemberRight)] = &[
    ("url", Inherited),
    ("events", Inherited),
    ("tenants", Inherited),
    ("enabled", Inherited),
    ("secret", Inherited),
];
const STORAGE: MemberRight = Parts(&[("quotaBytes", WholeHub), ("filesQuota", WholeHub)]);
const BROWSER: MemberRight = Parts(&[
    ("enabled", Inherited),
    ("mode", Inherited),
    ("maxTabs", WholeHub),
]);
/// What a document of a tenant has, each with the right of the operation that changes it alone.
const MANIFEST: MemberRight = Parts(&[
    ("id", Inherited),
    ("name", Inherited),
    ("flavor", WholeHub),
    ("labels", Inherited),
    ("groups", SameAs("put_member")),
    ("env", SameAs("set_env")),
    ("model", SameAs("update_tenant_model")),
    ("mcpServers", SameAs("put_mcp_server")),
    ("skills", SameAs("put_skill")),
    ("soul", SameAs("put_soul")),
    ("memory", SameAs("put_memory")),
    ("files", SameAs("write_file")),
    ("platforms", SameAs("put_platform")),
    ("cron", SameAs("create_tenant_cron")),
    ("limits", WholeHub),
    ("storage", WholeHub),
]);
const PAGE_MEMBERS: &[(&str, MemberRight)] = &[("limit", Inherited), ("cursor", Inherited)];

/// By operation and member.
pub(super) const RIGHTS: &[(&str, &[(&str, MemberRight)])] = &[
    (
        "list_tenants",
        &[
            ("status", Inherited),
            ("search", Inherited),
            ("flavor", Inherited),
            ("label", Inherited),
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
    (
        "put_platform",
        &[
            ("token", SameAs("set_env")),
            ("app_token", SameAs("set_env")),
            ("token_env", SameAs("set_env")),
            ("allow_from", Inherited),
            ("group_allow_from", Inherited),
            ("group_allowed_chats", Inherited),
            ("allowed_roles", Inherited),
            ("allow_all_users", Inherited),
            ("unauthorized_dm", Inherited),
            ("home_channel", Inherited),
            ("enabled", Inherited),
        ],
    ),
    (
        "approve_pairing",
        &[("account", Inherited), ("code", Inherited)],
    ),
    (
        "patch_limits",
        &[("runs_per_day", WholeHub), ("tokens_per_day", WholeHub)],
    ),
    (
        "watch_events",
        &[
            ("tenant", Inherited),
            ("type", Inherited),
            ("after", Inherited),
            ("follow", Inherited),
        ],
    ),
    (
        "get_usage",
        &[
            ("by", Inherited),
            ("from", Inherited),
            ("to", Inherited),
            ("tenant", Inherited),
            ("format", Inherited),
            ("limit", Inherited),
            ("cursor", Inherited),
        ],
    ),
    ("create_webhook", WEBHOOK_MEMBERS),
    ("update_webhook", WEBHOOK_MEMBERS),
    (
        "list_deliveries",
        &[
            ("state", Inherited),
            ("limit", Inherited),
            ("cursor", Inherited),
        ],
    ),
    // Whoever says where the key goes could have it sent to themselves.
    (
        "update_tenant_model",
        &[
            ("model", Inherited),
            ("provider", SameAs("set_env")),
            ("base_url", SameAs("set_env")),
            ("key_env", SameAs("set_env")),
            ("api_mode", Inherited),
            ("context_length", Inherited),
        ],
    ),
    ("put_mcp_server", &[("config", Inherited)]),
    ("update_mcp_server", &[("patch", Inherited)]),
    ("get_mcp_server_log", &[("lines", Inherited)]),
    (
        "call_mcp_tool",
        &[
            ("tool", Inherited),
            ("arguments", Inherited),
            ("timeout_seconds", Inherited),
        ],
    ),
    ("log_in_to_mcp_server", &[("address", Inherited)]),
    ("accept_mcp_tools", &[("tools", Inherited)]),
    ("list_files", &[("path", Inherited)]),
    (
        "grep_files",
        &[
            ("pattern", Inherited),
            ("path", Inherited),
            ("max", Inherited),
            ("ignore_case", Inherited),
        ],
    ),
    (
        "find_files",
        &[("path", Inherited), ("name", Inherited), ("max", Inherited)],
    ),
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
    (
        "write_file",
        &[
            ("path", Inherited),
            ("content", Inherited),
            ("content_base64", Inherited),
            ("mode", Inherited),
        ],
    ),
    (
        "remove_file",
        &[("path", Inherited), ("recursive", Inherited)],
    ),
    ("make_directory", &[("path", Inherited)]),
    ("move_file", &[("from", Inherited), ("to", Inherited)]),
    (
        "upload_archive",
        &[("path", Inherited), ("archive", Inherited)],
    ),
    (
        "put_manifest",
        &[("manifest", MANIFEST), ("dry_run", Inherited)],
    ),
    ("put_soul", &[("content", Inherited)]),
    ("put_memory", &[("content", Inherited)]),
    (
        "put_skill",
        &[
            ("files", Inherited),
            ("archive", Inherited),
            ("library", Inherited),
            ("category", Inherited),
        ],
    ),
    ("list_library_skills", PAGE_MEMBERS),
    (
        "put_library_skill",
        &[("files", Inherited), ("archive", Inherited)],
    ),
    (
        "list_sessions",
        &[
            ("source", Inherited),
            ("except_source", Inherited),
            ("limit", Inherited),
            ("cursor", Inherited),
        ],
    ),
    (
        "search_sessions",
        &[
            ("query", Inherited),
            ("session_id", Inherited),
            ("source", Inherited),
            ("except_source", Inherited),
            ("limit", Inherited),
            ("cursor", Inherited),
        ],
    ),
    (
        "list_session_messages",
        &[
            ("all", Inherited),
            ("newest", Inherited),
            ("from", Inherited),
            ("limit", Inherited),
            ("cursor", Inherited),
        ],
    ),
    ("rename_session", &[("title", Inherited)]),
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
    ("download_share_file", &[("path", Inherited)]),
    (
        "upload_share_file",
        &[
            ("path", Inherited),
            ("content_base64", Inherited),
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
    (
        "list_upcoming_crons",
        &[
            ("limit", Inherited),
            ("cursor", Inherited),
            ("all", Inherited),
        ],
    ),
    ("create_tenant_cron", &[("job", Inherited)]),
    ("update_tenant_cron", &[("patch", Inherited)]),
    ("pause_tenant_cron", &[("reason", Inherited)]),
    (
        "patch_tenant_impact_config",
        &[("patch", Inherited), ("dry_run", Inherited)],
    ),
    (
        "put_agent_policy",
        &[("policy", Inherited), ("dry_run", Inherited)],
    ),
    (
        "put_agent_specialization",
        &[("content", Inherited), ("dry_run", Inherited)],
    ),
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
            ("model", Inherited),
            ("since", Inherited),
            ("until", Inherited),
            ("limit", Inherited),
            ("cursor", Inherited),
        ],
    ),
    (
        "list_all_runs",
        &[
            ("status", Inherited),
            ("trigger", Inherited),
            ("model", Inherited),
            ("since", Inherited),
            ("until", Inherited),
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
            ("content", Inherited),
            ("cancel", Inherited),
        ],
    ),
    ("list_approvals", PAGE_MEMBERS),
    (
        "respond_approval",
        &[
            ("choice", Inherited),
            ("reason", Inherited),
            ("content", Inherited),
            ("cancel", Inherited),
        ],
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
    ("put_group_skills", &[("skills", Inherited)]),
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
            ("reach", Inherited),
            ("limit", Inherited),
            ("cursor", Inherited),
        ],
    ),
    (
        "verify_audit",
        &[("limit", Inherited), ("cursor", Inherited)],
    ),
];
