//! The operator's policy for the agent of a home: tools, models, hosts, jobs, runs, variables, features, and the
//! approval timeout.
//!
//! [`Directives`] arrive while the agent runs. Their limits become a [`AgentPolicy`], which is checked again at every
//! tool call. The home's own configuration can only narrow it.

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use hermes_store::cron::JobLimits;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::glob;

mod egress;
pub(crate) mod public_address;
#[cfg(test)]
mod tests;

pub(crate) use self::egress::AllowedNetworks;
pub use self::egress::{Egress, EgressDenied};

/// Settings that an operator gives the agent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Directives {
    pub policy: Value,
    /// Text placed before the home's own.
    pub specialization: String,
    /// Feature settings by name; unknown ones are ignored.
    pub feature: Map<String, Value>,
    pub model: Option<String>,
    /// Approval timeout; 0 leaves it to the policy.
    pub approval_timeout_seconds: u64,
}

/// What the directives allow. The default allows everything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AgentPolicy {
    /// Patterns of tools; `None` is all of them.
    allow: Option<Vec<String>>,
    deny: Vec<String>,
    require_approval: Vec<String>,
    /// Patterns of models; `None` is all of them.
    models: Option<Vec<String>>,
    /// The optional features that are on; `None` is all of them.
    features: Option<Vec<String>>,
    approval_timeout: Option<Duration>,
    on_timeout: OnTimeout,
    egress: Egress,
    jobs: Option<JobLimits>,
    concurrent_runs: Option<usize>,
    max_run_time: Option<Duration>,
    /// Patterns of environment variables that it may not have.
    denied_variables: Vec<String>,
}

/// What happens when an approval times out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnTimeout {
    #[default]
    Deny,
    Approve,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolPermission {
    Allow,
    RequireApproval,
    Deny,
}

impl AgentPolicy {
    /// Reads the limits. Invalid values are ignored.
    pub fn new(directives: &Directives) -> Self {
        let policy = &directives.policy;
        let (tools, approvals) = (&policy["tools"], &policy["approvals"]);
        let seconds = match directives.approval_timeout_seconds {
            0 => approvals["timeoutSeconds"].as_u64(),
            seconds => Some(seconds),
        };
        let (cron, runs) = (&policy["cron"], &policy["runs"]);
        Self {
            egress: Egress::new(policy),
            jobs: parse_job_limits(cron),
            concurrent_runs: parse_count(&runs["maxConcurrent"]).map(|most| most.max(1)),
            max_run_time: runs["maxMinutes"]
                .as_f64()
                .and_then(|minutes| Duration::try_from_secs_f64(minutes * 60.0).ok()),
            denied_variables: parse_strings(&policy["env"]["deny"]).unwrap_or_default(),
            allow: parse_strings(&tools["allow"]),
            deny: parse_strings(&tools["deny"]).unwrap_or_default(),
            require_approval: parse_strings(&tools["requireApproval"]).unwrap_or_default(),
            models: parse_strings(&policy["models"]["allow"]),
            features: parse_strings(&policy["features"]["enabled"]),
            approval_timeout: seconds.filter(|&it| it > 0).map(Duration::from_secs),
            on_timeout: match approvals["onTimeout"].as_str() {
                Some("approve" | "allow") => OnTimeout::Approve,
                _ => OnTimeout::Deny,
            },
        }
    }

    /// The permission of a tool, by its registered name.
    pub fn tool_permission(&self, name: &str) -> ToolPermission {
        let is_in = |patterns: &[String]| {
            patterns
                .iter()
                .any(|pattern| pattern_matches(pattern, name))
        };
        let is_allowed = self.allow.as_deref().is_none_or(is_in);
        if !is_allowed || is_in(&self.deny) {
            ToolPermission::Deny
        } else if is_in(&self.require_approval) {
            ToolPermission::RequireApproval
        } else {
            ToolPermission::Allow
        }
    }

    pub fn allows_model(&self, provider: &str, model: &str) -> bool {
        let full = format!("{provider}/{model}");
        self.models.as_ref().is_none_or(|patterns| {
            let fits =
                |pattern: &String| glob::matches(pattern, model) || glob::matches(pattern, &full);
            patterns.iter().any(fits)
        })
    }

    pub(crate) fn allows_all_models(&self) -> bool {
        self.models.is_none()
    }

    /// Whether an optional feature is on: `mcp`, `messaging`.
    pub fn has_feature(&self, name: &str) -> bool {
        let is_on = |features: &Vec<String>| features.iter().any(|feature| feature == name);
        self.features.as_ref().is_none_or(is_on)
    }

    /// The approval timeout: the operator's, or the home's if that is shorter.
    pub(crate) fn approval_timeout(&self, usual: Duration, written: Option<Duration>) -> Duration {
        match (self.approval_timeout, written) {
            (None, _) => usual,
            (Some(limit), Some(written)) => limit.min(written),
            (Some(limit), None) => limit,
        }
    }

    pub fn egress(&self) -> &Egress {
        &self.egress
    }

    /// Limits on the number and frequency of jobs.
    pub fn job_limits(&self) -> Option<JobLimits> {
        self.jobs
    }

    /// How many runs may be active at once: the operator's limit, or the home's if that is lower.
    pub fn max_concurrent_runs(&self, wanted: usize) -> usize {
        self.concurrent_runs.map_or(wanted, |most| most.min(wanted))
    }

    pub fn max_run_time(&self) -> Option<Duration> {
        self.max_run_time
    }

    /// Whether the agent may have an environment variable.
    pub fn allows_variable(&self, name: &str) -> bool {
        let is_denied = |pattern: &String| glob::matches(pattern, name);
        !self.denied_variables.iter().any(is_denied)
    }

    pub fn denies_same_variables(&self, other: &Self) -> bool {
        self.denied_variables == other.denied_variables
    }

    pub(crate) fn on_timeout(&self) -> OnTimeout {
        self.on_timeout
    }
}

/// Whether a pattern matches a tool. Both spellings of MCP tools are checked, or one could bypass the other.
fn pattern_matches(pattern: &str, name: &str) -> bool {
    let plain = |text: &str| text.replace("__", "_");
    glob::matches(pattern, name) || glob::matches(&plain(pattern), &plain(name))
}

/// Limits of jobs; missing ones do not limit.
fn parse_job_limits(cron: &Value) -> Option<JobLimits> {
    let (most, least) = (
        parse_count(&cron["maxJobs"]),
        parse_count(&cron["minIntervalMinutes"]),
    );
    (most.is_some() || least.is_some()).then(|| JobLimits {
        max_jobs: most.unwrap_or(usize::MAX),
        min_interval_minutes: least.map_or(0, |least| u32::try_from(least).unwrap_or(u32::MAX)),
    })
}

fn parse_count(value: &Value) -> Option<usize> {
    value
        .as_u64()
        .and_then(|number| usize::try_from(number).ok())
}

fn parse_strings(value: &Value) -> Option<Vec<String>> {
    let items = value.as_array()?.iter().filter_map(Value::as_str);
    Some(items.map(str::to_owned).collect())
}

/// The current directives and policy. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct PolicyHandle {
    cell: Arc<ArcSwap<(Directives, AgentPolicy)>>,
}

impl PolicyHandle {
    pub fn set(&self, directives: Directives) {
        let policy = AgentPolicy::new(&directives);
        self.cell.store(Arc::new((directives, policy)));
    }

    pub fn directives(&self) -> Directives {
        self.cell.load().0.clone()
    }

    pub fn policy(&self) -> AgentPolicy {
        self.cell.load().1.clone()
    }
}
