use std::num::NonZeroU64;

use serde_json::{Value, json};

use super::*;

fn directives(document: &Value) -> Directives {
    Directives::new(Policy::resolve(document, &Policy::unrestricted()).unwrap())
}

fn policy(document: &Value) -> AgentPolicy {
    directives(document).into()
}

#[test]
fn without_an_operator_nothing_is_limited() {
    let free = AgentPolicy::default();
    assert_eq!(free.tool_permission("terminal"), ToolPermission::Allow);
    assert!(free.allows_model("openai", "gpt") && free.allows_all_models());
    assert!(free.has_feature(Feature::Mcp));
    assert!(free.allows_variable("ANY"));
    assert_eq!(free.egress().check_url("${env:URL}"), Ok(()));
    assert_eq!(free.job_limits(), None);
    assert_eq!(free.max_concurrent_runs(1000), 1000);
    assert_eq!(free.max_run_time(), None);
    assert_eq!((free.model(), free.specialization()), (None, None));
    let minute = Duration::from_mins(1);
    assert_eq!(free.approval_timeout(minute, None), minute);
}

#[test]
fn before_an_operators_directives_are_known_nothing_is_permitted() {
    let closed = AgentPolicy::closed();
    assert_eq!(closed.tool_permission("todo"), ToolPermission::Deny);
    assert!(!closed.allows_model("openai", "gpt") && !closed.allows_all_models());
    assert!(!closed.has_feature(Feature::Messaging));
    assert!(!closed.allows_variable("PATH"));
    for address in ["https://example.com", "http://127.0.0.1", "${env:URL}"] {
        assert!(closed.egress().check_url(address).is_err(), "{address}");
    }
    assert_eq!(closed.job_limits().unwrap().max_jobs, 0);
    assert_eq!(closed.max_concurrent_runs(16), 1);
}

#[test]
fn every_member_of_a_policy_is_followed() {
    let limited = policy(&json!({
        "tools": {"allow": ["read_*", "mcp_time_*"], "deny": ["mcp_time_set"], "requireApproval": ["read_file"]},
        "models": {"allow": ["anthropic/*"]}, "features": {"enabled": ["mcp"]},
        "egress": {"allowHosts": ["example.com"]}, "env": {"deny": ["HIDDEN_*"]},
        "cron": {"maxJobs": 3, "minIntervalMinutes": 60}, "runs": {"maxConcurrent": 2, "maxMinutes": 5},
    }));
    for (tool, permission) in [
        ("read_file", ToolPermission::RequireApproval),
        ("read_dir", ToolPermission::Allow),
        ("terminal", ToolPermission::Deny),
        ("mcp_time_now", ToolPermission::Allow),
        // The other spelling of a name is not a way around.
        ("mcp__time__set", ToolPermission::Deny),
    ] {
        assert_eq!(limited.tool_permission(tool), permission, "{tool}");
    }
    assert!(limited.allows_model("anthropic", "claude"));
    assert!(!limited.allows_model("openai", "gpt") && !limited.allows_all_models());
    assert!(limited.has_feature(Feature::Mcp) && !limited.has_feature(Feature::Messaging));
    assert!(limited.allows_variable("SHOWN") && !limited.allows_variable("HIDDEN_ONE"));
    let jobs = JobLimits {
        max_jobs: 3,
        min_interval_minutes: 60,
    };
    assert_eq!(limited.job_limits(), Some(jobs));
    assert_eq!(limited.max_concurrent_runs(16), 2);
    assert_eq!(limited.max_concurrent_runs(1), 1);
    assert_eq!(limited.max_run_time(), Some(Duration::from_mins(5)));
    assert!(!limited.denies_same_variables(&policy(&json!({}))));
    assert!(policy(&json!({})).denies_same_variables(&AgentPolicy::default()));
}

#[test]
fn a_home_may_want_less_time_but_not_more() {
    let seconds = Duration::from_secs;
    let limited = policy(&json!({"approvals": {"timeoutSeconds": 900}}));
    assert_eq!(limited.approval_timeout(seconds(60), None), seconds(900));
    assert_eq!(
        limited.approval_timeout(seconds(30), Some(seconds(30))),
        seconds(30)
    );
    assert_eq!(
        limited.approval_timeout(seconds(9999), Some(seconds(9999))),
        seconds(900)
    );
    let own = AgentPolicy::from(Directives {
        approval_timeout_seconds: NonZeroU64::new(5).unwrap(),
        ..directives(&json!({"approvals": {"timeoutSeconds": 900}}))
    });
    assert_eq!(own.approval_timeout(seconds(60), None), seconds(5));
}

#[test]
fn hosts_are_matched_by_name_and_private_ones_can_be_closed() {
    let is_open = |egress: &Value, address: &str| {
        let agent_policy = policy(&json!({"egress": egress}));
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
        assert_eq!(is_open(&some, address), expected, "{address}");
    }
    let public = json!({"allowHosts": ["*"], "denyPrivateNetworks": true});
    assert!(is_open(&public, "https://example.com"));
    for address in [
        "http://localhost/",
        "http://10.0.0.1/",
        "http://2130706433/",
    ] {
        assert!(!is_open(&public, address), "{address}");
        assert!(is_open(&json!({"allowHosts": ["*"]}), address), "{address}");
    }
}
