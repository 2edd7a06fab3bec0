//! The policy document that an operator writes, and the policy that it describes.

use std::sync::LazyLock;

use hermes_protocol::{CronLimits, Policy, ProtocolError, ToolPermission};
use hermes_store::cron::JobLimits;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::check::{SchemaChecker, without_extensions};
use crate::{Problem, ProblemCode, api_types::schema, tenants::documents::DocumentDefaults};

static CHECKER: LazyLock<SchemaChecker> =
    LazyLock::new(|| SchemaChecker::new(schema::input_schema::<Policy>()));

/// Refuses a document that does not describe a policy. Names that begin with `x-` are kept and mean nothing.
pub(crate) fn check_policy(document: &Map<String, Value>) -> Result<(), Problem> {
    let document = without_extensions(&Value::Object(document.clone()));
    // The schema names the place of a fault, but does not know how large a number may be.
    CHECKER.check("the policy", &document)?;
    Policy::resolve(&document, &Policy::unrestricted())
        .map(drop)
        .map_err(|error| {
            let message = error.to_string();
            Problem::new(ProblemCode::Unprocessable, &*message).with_detail("", message)
        })
}

/// The policy of a Hub whose operator has written none.
fn default_policy(baseline: DocumentDefaults) -> Policy {
    Policy {
        runs: baseline.run_limits(),
        ..Policy::unrestricted()
    }
}

/// The default document.
pub(crate) fn default_document(baseline: DocumentDefaults) -> Map<String, Value> {
    match serde_json::to_value(default_policy(baseline)) {
        Ok(Value::Object(document)) => document,
        _ => Map::new(),
    }
}

/// The policy that a stored document describes; missing members get their defaults.
pub(crate) fn resolve_policy(
    document: &Value,
    baseline: DocumentDefaults,
) -> Result<Policy, ProtocolError> {
    Policy::resolve(&without_extensions(document), &default_policy(baseline))
}

/// The limits of jobs, as those who write jobs know them.
pub(crate) fn job_limits(limits: CronLimits) -> JobLimits {
    JobLimits {
        max_jobs: usize::try_from(limits.max_jobs).unwrap_or(usize::MAX),
        min_interval_minutes: limits.min_interval_minutes,
    }
}

/// What the policy says about a tool, and which rule says so.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToolDecision {
    /// `allow`, `deny` or `require_approval`.
    decision: &'static str,
    /// The rule, as `tools.deny[0]: terminal`.
    rule: String,
}

pub(crate) fn decide_tool(policy: &Policy, tool: &str) -> ToolDecision {
    let (permission, rule) = policy.tools.explain(tool);
    let decision = match permission {
        ToolPermission::Allow => "allow",
        ToolPermission::RequireApproval => "require_approval",
        ToolPermission::Deny => "deny",
    };
    ToolDecision { decision, rule }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn checked(document: &Value) -> Result<(), Problem> {
        check_policy(document.as_object().unwrap())
    }

    fn baseline(max_concurrent: u64) -> DocumentDefaults {
        let mut settings =
            crate::settings::Settings::for_directory(std::path::Path::new("/nowhere")).unwrap();
        settings.runs.max_concurrent = max_concurrent;
        DocumentDefaults::from_settings(&settings)
    }

    #[test]
    fn a_policy_limits_runs_only_where_it_says_so() {
        let most = |document: Value, own: u64| {
            let policy = resolve_policy(&document, baseline(own)).unwrap();
            policy.runs.max_concurrent.get()
        };
        assert_eq!(most(json!({}), 16), 16);
        assert_eq!(most(json!({}), 2), 4);
        assert_eq!(most(json!({"runs": {"maxConcurrent": 3}}), 16), 3);
        assert_eq!(
            default_document(baseline(16))["runs"]["maxConcurrent"],
            json!(16)
        );
    }

    #[test]
    fn the_documented_policies_are_taken() {
        checked(&json!({"features": {"enabled": []}})).unwrap();
        checked(&Value::Object(default_document(baseline(4)))).unwrap();
        checked(&json!({"x-note": {"any": 1}, "tools": {"x-why": "because"}})).unwrap();
        assert_eq!(
            Value::Object(default_document(baseline(4))),
            json!({"version": 1, "features": {"enabled": ["browser", "mcp", "messaging", "a2a", "learned_skills"]},
                "tools": {"allow": ["*"], "deny": [], "requireApproval": []}, "models": {"allow": ["*"]},
                "egress": {"allowHosts": ["*"], "denyPrivateNetworks": false},
                "cron": {"maxJobs": 50, "minIntervalMinutes": 1}, "runs": {"maxConcurrent": 4, "maxMinutes": 60},
                "approvals": {"timeoutSeconds": 900, "onTimeout": "deny"}, "env": {"deny": []}})
        );
    }

    #[test]
    fn faults_are_told_with_their_place_and_what_was_meant() {
        for (document, place, told) in [
            (
                json!({"tools": {"dney": []}}),
                "/tools",
                "did you mean `deny`?",
            ),
            (
                json!({"features": {"enabled": ["telepathy"]}}),
                "/features/enabled/0",
                "telepathy",
            ),
            (
                json!({"cron": {"maxJobs": "many"}}),
                "/cron/maxJobs",
                "integer",
            ),
            (json!({"version": 2}), "/version", "2"),
        ] {
            let problem = checked(&document).unwrap_err();
            assert_eq!(problem.code, crate::ProblemCode::Unprocessable);
            assert_eq!(problem.details[0].field, place, "{document}");
            assert!(problem.details[0].reason.contains(told), "{problem:?}");
        }
    }

    #[test]
    fn a_number_that_no_policy_can_hold_is_refused() {
        for document in [
            json!({"cron": {"maxJobs": 5_000_000_000_u64}}),
            json!({"runs": {"maxMinutes": 1.0}}),
        ] {
            let problem = checked(&document).unwrap_err();
            assert_eq!(problem.code, crate::ProblemCode::Unprocessable);
            assert!(resolve_policy(&document, baseline(4)).is_err());
        }
    }

    #[test]
    fn denial_comes_before_approval_and_that_before_permission() {
        let document = json!({"tools": {
            "allow": ["mcp_*", "read_file"], "deny": ["mcp_shell_*"], "requireApproval": ["mcp_*_delete"],
        }});
        let policy = resolve_policy(&document, baseline(4)).unwrap();
        let decision = |tool: &str| decide_tool(&policy, tool).decision;
        assert_eq!(decision("mcp_shell_delete"), "deny");
        assert_eq!(decision("mcp_files_delete"), "require_approval");
        assert_eq!(decision("mcp_files_list"), "allow");
        assert_eq!(decision("terminal"), "deny");
        assert_eq!(
            decide_tool(&policy, "read_file").rule,
            "tools.allow[1]: read_file"
        );
    }
}
