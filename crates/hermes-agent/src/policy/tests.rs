use serde_json::json;

use super::*;

fn policy(policy: Value) -> AgentPolicy {
    AgentPolicy::new(&Directives {
        policy,
        ..Directives::default()
    })
}

#[test]
fn without_directives_everything_is_allowed() {
    let free = AgentPolicy::new(&Directives::default());
    assert_eq!(free, AgentPolicy::default());
    assert_eq!(free.tool_permission("terminal"), ToolPermission::Allow);
    assert!(free.allows_model("openai", "gpt"));
    assert!(free.has_feature("mcp"));
    let minute = Duration::from_mins(1);
    assert_eq!(free.approval_timeout(minute, None), minute);
}

#[test]
fn deny_wins_over_allow_and_over_approval() {
    let agent_policy = policy(json!({"tools": {
        "allow": ["read_*", "terminal", "mcp_time_*"],
        "deny": ["mcp_time_set*"],
        "requireApproval": ["terminal", "mcp_time_set*"],
    }}));
    assert_eq!(
        agent_policy.tool_permission("read_file"),
        ToolPermission::Allow
    );
    assert_eq!(
        agent_policy.tool_permission("write_file"),
        ToolPermission::Deny
    );
    assert_eq!(
        agent_policy.tool_permission("terminal"),
        ToolPermission::RequireApproval
    );
    assert_eq!(
        agent_policy.tool_permission("mcp_time_now"),
        ToolPermission::Allow
    );
    assert_eq!(
        agent_policy.tool_permission("mcp_time_set_zone"),
        ToolPermission::Deny
    );
}

#[test]
fn the_other_spelling_of_a_name_is_not_a_way_around() {
    let agent_policy = policy(json!({"tools": {"deny": ["mcp_time_*"]}}));
    assert_eq!(
        agent_policy.tool_permission("mcp__time__now"),
        ToolPermission::Deny
    );
}

#[test]
fn an_empty_list_allows_nothing() {
    let none = policy(json!({
        "tools": {"allow": []}, "models": {"allow": []}, "features": {"enabled": []},
    }));
    assert_eq!(none.tool_permission("terminal"), ToolPermission::Deny);
    assert!(!none.allows_model("openai", "gpt"));
    assert!(!none.has_feature("mcp"));
}

#[test]
fn models_are_named_alone_or_with_their_provider() {
    let agent_policy = policy(json!({"models": {"allow": ["anthropic/*", "small-*"]}}));
    assert!(agent_policy.allows_model("anthropic", "claude"));
    assert!(agent_policy.allows_model("openai", "small-1"));
    assert!(!agent_policy.allows_model("openai", "large"));
}

#[test]
fn a_home_may_want_less_time_but_not_more() {
    let seconds = Duration::from_secs;
    let limited = policy(json!({"approvals": {"timeoutSeconds": 900}}));
    assert_eq!(limited.approval_timeout(seconds(60), None), seconds(900));
    assert_eq!(
        limited.approval_timeout(seconds(30), Some(seconds(30))),
        seconds(30)
    );
    assert_eq!(
        limited.approval_timeout(seconds(9999), Some(seconds(9999))),
        seconds(900)
    );
    let own = AgentPolicy::new(&Directives {
        approval_timeout_seconds: 5,
        policy: json!({"approvals": {"timeoutSeconds": 900}}),
        ..Directives::default()
    });
    assert_eq!(own.approval_timeout(seconds(60), None), seconds(5));
}

#[test]
fn hosts_are_matched_by_name_and_private_ones_can_be_closed() {
    let is_open = |egress: Value, address: &str| {
        let agent_policy = policy(json!({"egress": egress}));
        agent_policy.egress().check_url(address).is_ok()
    };
    let some = json!({"allowHosts": ["api.example.com", "*.example.org", "::1"]});
    for (address, expected) in [
        ("https://api.example.com/v1", true),
        ("https://API.example.com./v1", true),
        ("http://[::1]:8080/", true),
        ("https://a.b.example.org", true),
        ("https://example.org", false),
        ("https://example.com", false),
        ("https://api.example.com.evil.net", false),
        ("${env:URL}", false),
    ] {
        assert_eq!(is_open(some.clone(), address), expected, "{address}");
    }
    let public = json!({"allowHosts": ["*"], "denyPrivateNetworks": true});
    assert!(is_open(public.clone(), "https://example.com"));
    for address in [
        "http://localhost/",
        "http://10.0.0.1/",
        "http://2130706433/",
    ] {
        assert!(!is_open(public.clone(), address), "{address}");
        assert!(is_open(json!({"allowHosts": ["*"]}), address), "{address}");
    }
}
