use serde_json::json;

use super::*;

fn policy(document: &Value) -> Policy {
    Policy::resolve(document, &Policy::unrestricted()).unwrap()
}

#[test]
fn the_unrestricted_policy_is_the_documented_one() {
    assert_eq!(
        serde_json::to_value(Policy::unrestricted()).unwrap(),
        json!({"version": 1, "features": {"enabled": ["browser", "mcp", "messaging", "a2a", "learned_skills"]},
            "tools": {"allow": ["*"], "deny": [], "requireApproval": []}, "models": {"allow": ["*"]},
            "egress": {"allowHosts": ["*"], "denyPrivateNetworks": false},
            "cron": {"maxJobs": 50, "minIntervalMinutes": 1}, "runs": {"maxConcurrent": 4, "maxMinutes": 60},
            "approvals": {"timeoutSeconds": 900, "onTimeout": "deny"}, "env": {"deny": []}})
    );
}

#[test]
fn members_that_a_document_leaves_out_are_the_defaults() {
    assert_eq!(policy(&json!({})), Policy::unrestricted());
    let some = policy(&json!({"tools": {"deny": ["terminal"]}, "runs": {"maxMinutes": 5}}));
    assert_eq!(some.tools.allow, ["*"]);
    assert_eq!(some.tools.deny, ["terminal"]);
    assert_eq!(some.runs.max_concurrent.get(), 4);
    assert_eq!(some.runs.max_minutes.get(), 5);
    let narrow = Policy::resolve(&json!({"tools": {"allow": ["a"]}}), &Policy::closed()).unwrap();
    assert_eq!(narrow.tools.permission("a"), ToolPermission::Deny);
}

#[test]
fn a_document_that_is_not_understood_is_not_a_policy() {
    for document in [
        json!({"tools": {"dney": []}}),
        json!({"tool": {}}),
        json!({"tools": null}),
        json!({"tools": {"deny": "terminal"}}),
        json!({"tools": {"deny": null}}),
        json!({"features": {"enabled": ["telepathy"]}}),
        json!({"version": 2}),
        json!({"runs": {"maxConcurrent": 0}}),
        json!({"runs": {"maxMinutes": 0.5}}),
        json!({"approvals": {"onTimeout": "approve"}}),
        json!([]),
        json!(null),
    ] {
        let read = Policy::resolve(&document, &Policy::unrestricted());
        assert!(read.is_err(), "{document}");
    }
}

#[test]
fn denial_wins_over_approval_and_that_over_permission() {
    let policy = policy(&json!({"tools": {
        "allow": ["read_*", "terminal", "mcp_time_*"],
        "deny": ["mcp_time_set*"],
        "requireApproval": ["terminal", "mcp_time_set*"],
    }}));
    for (tool, permission, rule) in [
        ("read_file", ToolPermission::Allow, "tools.allow[0]: read_*"),
        (
            "write_file",
            ToolPermission::Deny,
            "tools.allow: no pattern names it",
        ),
        (
            "terminal",
            ToolPermission::RequireApproval,
            "tools.requireApproval[0]: terminal",
        ),
        (
            "mcp_time_now",
            ToolPermission::Allow,
            "tools.allow[2]: mcp_time_*",
        ),
        (
            "mcp_time_set_zone",
            ToolPermission::Deny,
            "tools.deny[0]: mcp_time_set*",
        ),
        // The other spelling of a name is not a way around.
        (
            "mcp__time__set_zone",
            ToolPermission::Deny,
            "tools.deny[0]: mcp_time_set*",
        ),
    ] {
        assert_eq!(policy.tools.permission(tool), permission, "{tool}");
        assert_eq!(policy.tools.explain(tool), (permission, rule.to_owned()));
    }
}

#[test]
fn models_are_named_alone_or_with_their_provider() {
    let models = policy(&json!({"models": {"allow": ["anthropic/*", "small-*"]}})).models;
    assert!(models.allows("anthropic", "claude"));
    assert!(models.allows("openai", "small-1"));
    assert!(!models.allows("openai", "large"));
}

#[test]
fn an_empty_list_allows_nothing_and_so_does_the_closed_policy() {
    let empty = policy(&json!({
        "tools": {"allow": []}, "models": {"allow": []}, "features": {"enabled": []},
        "env": {"deny": ["*"]},
    }));
    for policy in [empty, Policy::closed()] {
        assert_eq!(policy.tools.permission("terminal"), ToolPermission::Deny);
        assert!(!policy.models.allows("openai", "gpt"));
        assert!(!policy.features.has(Feature::Mcp));
        assert!(!policy.env.allows("ANY"));
    }
    assert_eq!(Policy::closed().cron.max_jobs, 0);
}
