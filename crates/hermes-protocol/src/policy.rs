//! The policy: what an operator lets agents do.

use std::num::{NonZeroU32, NonZeroU64};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    error::{ProtocolError, read},
    pattern::matches_pattern,
};

#[cfg(test)]
mod tests;

/// What agents may do, complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(default = "Policy::unrestricted")
)]
pub struct Policy {
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 1)))]
    pub version: FormatVersion,
    pub features: FeatureRules,
    pub tools: ToolRules,
    pub models: ModelRules,
    pub egress: EgressRules,
    pub cron: CronLimits,
    pub runs: RunLimits,
    pub approvals: ApprovalRules,
    pub env: EnvRules,
}

/// The version of the document's form. There is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FormatVersion;

impl TryFrom<u64> for FormatVersion {
    type Error = String;

    fn try_from(version: u64) -> Result<Self, Self::Error> {
        match version {
            1 => Ok(Self),
            _ => Err(format!("version {version} of the policy is not known")),
        }
    }
}

impl From<FormatVersion> for u64 {
    fn from(_: FormatVersion) -> Self {
        1
    }
}

/// Optional features.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Feature {
    Browser,
    Mcp,
    Messaging,
    A2a,
    LearnedSkills,
}

/// Which optional features agents have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(default = "FeatureRules::unrestricted")
)]
pub struct FeatureRules {
    pub enabled: Vec<Feature>,
}

impl FeatureRules {
    fn unrestricted() -> Self {
        use Feature::{A2a, Browser, LearnedSkills, Mcp, Messaging};
        Self {
            enabled: vec![Browser, Mcp, Messaging, A2a, LearnedSkills],
        }
    }

    pub fn has(&self, feature: Feature) -> bool {
        self.enabled.contains(&feature)
    }
}

/// Which tools agents may call. Patterns may have `*`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(default = "ToolRules::unrestricted")
)]
pub struct ToolRules {
    pub allow: Vec<String>,
    pub deny: Vec<String>,
    pub require_approval: Vec<String>,
}

/// What the policy says about a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolPermission {
    Allow,
    RequireApproval,
    Deny,
}

impl ToolRules {
    fn unrestricted() -> Self {
        Self {
            allow: any(),
            deny: Vec::new(),
            require_approval: Vec::new(),
        }
    }

    /// What holds for a tool, by its registered name. Denial wins over approval, and that over permission.
    pub fn permission(&self, tool: &str) -> ToolPermission {
        self.decide(tool).0
    }

    /// The same, with the rule that decides, as `tools.deny[0]: terminal`.
    pub fn explain(&self, tool: &str) -> (ToolPermission, String) {
        let (permission, rule) = self.decide(tool);
        let rule = match rule {
            Some((list, at, pattern)) => format!("tools.{list}[{at}]: {pattern}"),
            None => "tools.allow: no pattern names it".to_owned(),
        };
        (permission, rule)
    }

    fn decide(&self, tool: &str) -> (ToolPermission, Option<(&'static str, usize, &str)>) {
        let find = |name: &'static str, patterns: &'_ [String]| {
            let at = patterns
                .iter()
                .position(|pattern| matches_tool(pattern, tool))?;
            Some((name, at))
        };
        if let Some((list, at)) = find("deny", &self.deny) {
            return (ToolPermission::Deny, Some((list, at, &self.deny[at])));
        }
        let Some((list, at)) = find("allow", &self.allow) else {
            return (ToolPermission::Deny, None);
        };
        match find("requireApproval", &self.require_approval) {
            Some((list, at)) => {
                let rule = (list, at, self.require_approval[at].as_str());
                (ToolPermission::RequireApproval, Some(rule))
            }
            None => (ToolPermission::Allow, Some((list, at, &self.allow[at]))),
        }
    }
}

/// Whether a pattern matches a tool. MCP tools have two spellings, `mcp_s_t` and `mcp__s__t`: a rule for one holds for
/// the other, or it could be bypassed.
fn matches_tool(pattern: &str, tool: &str) -> bool {
    let plain = |text: &str| text.replace("__", "_");
    matches_pattern(pattern, tool) || matches_pattern(&plain(pattern), &plain(tool))
}

/// Which models agents may use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(default = "ModelRules::unrestricted")
)]
pub struct ModelRules {
    pub allow: Vec<String>,
}

impl ModelRules {
    fn unrestricted() -> Self {
        Self { allow: any() }
    }

    /// Whether a pattern matches the model, alone or with its provider.
    pub fn allows(&self, provider: &str, model: &str) -> bool {
        let full = format!("{provider}/{model}");
        self.allow
            .iter()
            .any(|pattern| matches_pattern(pattern, model) || matches_pattern(pattern, &full))
    }
}

/// What agents may reach.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(default = "EgressRules::unrestricted")
)]
pub struct EgressRules {
    pub allow_hosts: Vec<String>,
    pub deny_private_networks: bool,
}

impl EgressRules {
    fn unrestricted() -> Self {
        Self {
            allow_hosts: any(),
            deny_private_networks: false,
        }
    }
}

/// How many jobs a tenant may have, and how often they may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(default = "CronLimits::unrestricted")
)]
pub struct CronLimits {
    pub max_jobs: u32,
    pub min_interval_minutes: u32,
}

impl CronLimits {
    fn unrestricted() -> Self {
        Self {
            max_jobs: 50,
            min_interval_minutes: 1,
        }
    }
}

/// How many runs a tenant may have at once, and how long each may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(default = "RunLimits::unrestricted")
)]
pub struct RunLimits {
    pub max_concurrent: NonZeroU32,
    pub max_minutes: NonZeroU32,
}

impl RunLimits {
    /// The limits of a policy that names none.
    pub fn unrestricted() -> Self {
        Self {
            max_concurrent: const { NonZeroU32::new(4).unwrap() },
            max_minutes: const { NonZeroU32::new(60).unwrap() },
        }
    }
}

/// How long approvals wait, and what happens then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(default = "ApprovalRules::unrestricted")
)]
pub struct ApprovalRules {
    pub timeout_seconds: NonZeroU64,
    pub on_timeout: OnTimeout,
}

impl ApprovalRules {
    fn unrestricted() -> Self {
        Self {
            timeout_seconds: const { NonZeroU64::new(900).unwrap() },
            on_timeout: OnTimeout::Deny,
        }
    }
}

/// What an approval is that nobody decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum OnTimeout {
    Deny,
}

/// Which variables tenants may not set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(default = "EnvRules::unrestricted")
)]
pub struct EnvRules {
    pub deny: Vec<String>,
}

impl EnvRules {
    fn unrestricted() -> Self {
        Self { deny: Vec::new() }
    }

    pub fn allows(&self, name: &str) -> bool {
        !self
            .deny
            .iter()
            .any(|pattern| matches_pattern(pattern, name))
    }
}

fn any() -> Vec<String> {
    vec!["*".to_owned()]
}

impl Policy {
    /// The policy of a Hub whose operator has written none.
    pub fn unrestricted() -> Self {
        Self {
            version: FormatVersion,
            features: FeatureRules::unrestricted(),
            tools: ToolRules::unrestricted(),
            models: ModelRules::unrestricted(),
            egress: EgressRules::unrestricted(),
            cron: CronLimits::unrestricted(),
            runs: RunLimits::unrestricted(),
            approvals: ApprovalRules::unrestricted(),
            env: EnvRules::unrestricted(),
        }
    }

    /// The policy that allows nothing: it stands in for one that is not known yet or cannot be read.
    pub fn closed() -> Self {
        Self {
            version: FormatVersion,
            features: FeatureRules {
                enabled: Vec::new(),
            },
            tools: ToolRules {
                allow: Vec::new(),
                deny: any(),
                require_approval: any(),
            },
            models: ModelRules { allow: Vec::new() },
            egress: EgressRules {
                allow_hosts: Vec::new(),
                deny_private_networks: true,
            },
            cron: CronLimits {
                max_jobs: 0,
                min_interval_minutes: u32::MAX,
            },
            runs: RunLimits {
                max_concurrent: NonZeroU32::MIN,
                max_minutes: NonZeroU32::MIN,
            },
            approvals: ApprovalRules::unrestricted(),
            env: EnvRules { deny: any() },
        }
    }

    /// The policy that an operator's document describes: members that it leaves out are those of `defaults`.
    pub fn resolve(document: &Value, defaults: &Self) -> Result<Self, ProtocolError> {
        let mut whole = crate::error::write(defaults);
        overlay(&mut whole, document);
        read("the policy", whole)
    }
}

/// Replaces members of objects by those of the document, at any depth.
fn overlay(whole: &mut Value, document: &Value) {
    match (whole, document) {
        (Value::Object(whole), Value::Object(document)) => {
            for (name, value) in document {
                match whole.get_mut(name) {
                    Some(member) => overlay(member, value),
                    None => {
                        whole.insert(name.clone(), value.clone());
                    }
                }
            }
        }
        (whole, document) => *whole = document.clone(),
    }
}
