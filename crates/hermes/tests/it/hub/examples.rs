//! What the documented contract shows: calls that work as they are printed, and some that must not.

use serde_json::{Value, json};

/// The tools that answer `{"ok": true}`.
pub(super) const EMPTY: [&str; 3] = ["delete_tenant", "remove_share_path", "delete_tenant_cron"];

/// Every example of the documented contract as it is printed, in an order in which each finds what it needs.
pub(super) fn examples() -> Vec<(String, Value)> {
    let examples = serde_json::from_str(include_str!("clients/examples.json"));
    examples.unwrap()
}

/// Calls that must not work, and the code and status of their problem.
pub(super) fn refused() -> Vec<(String, Value, &'static str, u64)> {
    let call = |tool: &str, arguments, code, status| (tool.to_owned(), arguments, code, status);
    let share =
        |path: &str| json!({"tenant_id": "tenant_123", "group_id": "division1", "path": path});
    vec![
        call(
            "get_tenant",
            json!({"tenant_id": "nobody"}),
            "not_found",
            404,
        ),
        call(
            "read_share_file",
            share("../secret"),
            "invalid_argument",
            400,
        ),
        call(
            "remove_share_path",
            share("archive"),
            "failed_precondition",
            409,
        ),
        call(
            "get_tenant",
            json!({"tenant_id": 5}),
            "invalid_argument",
            400,
        ),
        call(
            "put_agent_policy",
            json!({"policy": {"tols": {}}}),
            "unprocessable",
            422,
        ),
    ]
}
