//! The policy: the limits of what agents may do.

use std::sync::LazyLock;

use hermes_store::cron::JobLimits;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::check::{SchemaChecker, without_extensions};
use crate::{Problem, api_types::schema, tenants::documents::DocumentDefaults};

/// What agents may do. Missing members have their defaults; names that begin with `x-` are kept and mean nothing.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Policy {
    #[schemars(range(min = 1, max = 1))]
    pub(crate) version: FormatVersion,
    pub(crate) features: FeatureRules,
    pub(crate) tools: ToolRules,
    pub(crate) models: ModelRules,
    pub(crate) egress: EgressRules,
    pub(crate) cron: CronLimits,
    pub(crate) runs: RunLimits,
    pub(crate) approvals: ApprovalRules,
    pub(crate) env: EnvRules,
}

/// The version of the document's form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct FormatVersion(u64);

impl Default for FormatVersion {
    fn default() -> Self {
        Self(1)
    }
}

/// Optional features.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Feature {
    Browser,
    Mcp,
    Messaging,
    A2a,
    LearnedSkills,
}

/// Which optional features agents have.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct FeatureRules {
    pub(crate) enabled: Vec<Feature>,
}

impl Default for FeatureRules {
    fn default() -> Self {
        use Feature::{A2a, Browser, LearnedSkills, Mcp, Messaging};
        Self {
            enabled: vec![Browser, Mcp, Messaging, A2a, LearnedSkills],
        }
    }
}

/// Which tools agents may call. Patterns may have `*`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct ToolRules {
    pub(crate) allow: Vec<String>,
    pub(crate) deny: Vec<String>,
    pub(crate) require_approval: Vec<String>,
}

impl Default for ToolRules {
    fn default() -> Self {
        Self {
            allow: vec!["*".into()],
            deny: Vec::new(),
            require_approval: Vec::new(),
        }
    }
}

/// Which models agents may use.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct ModelRules {
    pub(crate) allow: Vec<String>,
}

impl Default for ModelRules {
    fn default() -> Self {
        Self {
            allow: vec!["*".into()],
        }
    }
}

/// What agents may reach.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct EgressRules {
    pub(crate) allow_hosts: Vec<String>,
    pub(crate) deny_private_networks: bool,
}

impl Default for EgressRules {
    fn default() -> Self {
        Self {
            allow_hosts: vec!["*".into()],
            deny_private_networks: false,
        }
    }
}

/// How many jobs a tenant may have, and how often they may run.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct CronLimits {
    pub(crate) max_jobs: u32,
    pub(crate) min_interval_minutes: u32,
}

impl Default for CronLimits {
    fn default() -> Self {
        Self {
            max_jobs: 50,
            min_interval_minutes: 1,
        }
    }
}

impl CronLimits {
    pub(crate) fn job_limits(&self) -> JobLimits {
        JobLimits {
            max_jobs: self.max_jobs as usize,
            min_interval_minutes: self.min_interval_minutes,
        }
    }
}

/// How many runs a tenant may have at once, and how long each may take.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct RunLimits {
    #[schemars(range(min = 1))]
    pub(crate) max_concurrent: u32,
    #[schemars(range(min = 1))]
    pub(crate) max_minutes: u32,
}

impl Default for RunLimits {
    fn default() -> Self {
        Self {
            max_concurrent: 4,
            max_minutes: 60,
        }
    }
}

/// How long approvals wait, and what happens then.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct ApprovalRules {
    #[schemars(range(min = 1))]
    pub(crate) timeout_seconds: u64,
    pub(crate) on_timeout: OnTimeout,
}

/// What an approval is that nobody decides.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OnTimeout {
    #[default]
    Deny,
}

impl Default for ApprovalRules {
    fn default() -> Self {
        Self {
            timeout_seconds: 900,
            on_timeout: OnTimeout::Deny,
        }
    }
}

/// Which variables tenants may not set.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct EnvRules {
    pub(crate) deny: Vec<String>,
}

static CHECKER: LazyLock<SchemaChecker> =
    LazyLock::new(|| SchemaChecker::new(schema::input_schema::<Policy>()));

pub(crate) fn check_policy(document: &Map<String, Value>) -> Result<(), Problem> {
    CHECKER.check(
        "the policy",
        &without_extensions(&Value::Object(document.clone())),
    )
}

/// The default document.
pub(crate) fn default_document(baseline: DocumentDefaults) -> Map<String, Value> {
    let policy = Policy {
        runs: baseline.run_limits(),
        ..Policy::default()
    };
    match serde_json::to_value(policy) {
        Ok(Value::Object(document)) => document,
        _ => Map::new(),
    }
}

impl Policy {
    pub(crate) fn allows_variable(&self, name: &str) -> bool {
        !self
            .env
            .deny
            .iter()
            .any(|pattern| matches_pattern(pattern, name))
    }

    pub(crate) fn has_messaging(&self) -> bool {
        self.features.enabled.contains(&Feature::Messaging)
    }

    /// Reads a stored document; missing members get their defaults.
    pub(crate) fn from_document(document: &Value, baseline: DocumentDefaults) -> Self {
        let read: Result<Self, _> = serde_json::from_value(without_extensions(document));
        let mut policy = read.unwrap_or_else(|error| {
            tracing::error!(%error, "failed to read the stored policy; using the default");
            Self::default()
        });
        let usual = baseline.run_limits();
        let says = |name: &str| document.pointer(&format!("/runs/{name}")).is_some();
        if !says("maxConcurrent") {
            policy.runs.max_concurrent = usual.max_concurrent;
        }
        if !says("maxMinutes") {
            policy.runs.max_minutes = usual.max_minutes;
        }
        policy
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
    let found = |list: &[String], name: &str| {
        let at = list
            .iter()
            .position(|pattern| matches_pattern(pattern, tool))?;
        Some(format!("tools.{name}[{at}]: {}", list[at]))
    };
    if let Some(rule) = found(&policy.tools.deny, "deny") {
        return ToolDecision {
            decision: "deny",
            rule,
        };
    }
    match found(&policy.tools.allow, "allow") {
        None => ToolDecision {
            decision: "deny",
            rule: "tools.allow: no pattern names it".into(),
        },
        Some(rule) => match found(&policy.tools.require_approval, "requireApproval") {
            Some(rule) => ToolDecision {
                decision: "require_approval",
                rule,
            },
            None => ToolDecision {
                decision: "allow",
                rule,
            },
        },
    }
}

/// Whether a pattern with `*` matches a name.
pub(crate) fn matches_pattern(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else {
        return false;
    };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else {
        return rest.is_empty();
    };
    for part in middle {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
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
            Policy::from_document(&document, baseline(own))
                .runs
                .max_concurrent
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
    fn denial_comes_before_approval_and_that_before_permission() {
        let policy = Policy::from_document(
            &json!({"tools": {"allow": ["mcp_*", "read_file"], "deny": ["mcp_shell_*"], "requireApproval": ["mcp_*_delete"]}}),
            baseline(4),
        );
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
