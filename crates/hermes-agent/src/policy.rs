//! What an operator permits the agent of a home: tools, models, hosts, jobs, runs, variables, features; and for how long
//! approvals wait.
//!
//! A Hub sends [`Directives`] while the agent runs, always complete. They become an [`AgentPolicy`], which is looked at
//! again at every tool call. The home's own configuration can only narrow it. A home without a Hub has no operator, and
//! nothing is forbidden there; with one, nothing is permitted until its directives are known.

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use hermes_protocol::{Directives, Feature, Policy, ToolPermission};
use hermes_store::cron::JobLimits;

mod egress;
#[cfg(test)]
mod tests;

pub(crate) use self::egress::AllowedNetworks;
pub use self::egress::{Egress, EgressDenied, PublicResolver};

/// What is permitted. The default is for a home without an operator: everything.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AgentPolicy {
    /// `None` without an operator.
    directives: Option<Directives>,
    egress: Egress,
}

impl From<Directives> for AgentPolicy {
    fn from(directives: Directives) -> Self {
        Self {
            egress: Egress::new(&directives.policy.egress),
            directives: Some(directives),
        }
    }
}

impl AgentPolicy {
    /// Nothing is permitted: for an agent whose operator's directives are not known yet.
    pub fn closed() -> Self {
        Directives::new(Policy::closed()).into()
    }

    fn rules(&self) -> Option<&Policy> {
        self.directives.as_ref().map(|it| &it.policy)
    }

    /// The permission of a tool, by its registered name.
    pub fn tool_permission(&self, name: &str) -> ToolPermission {
        self.rules().map_or(ToolPermission::Allow, |policy| {
            policy.tools.permission(name)
        })
    }

    pub fn allows_model(&self, provider: &str, model: &str) -> bool {
        self.rules()
            .is_none_or(|policy| policy.models.allows(provider, model))
    }

    pub(crate) fn allows_all_models(&self) -> bool {
        let is_any = |policy: &Policy| policy.models.allow.iter().any(|pattern| pattern == "*");
        self.rules().is_none_or(is_any)
    }

    /// Whether an optional feature is on.
    pub fn has_feature(&self, feature: Feature) -> bool {
        self.rules()
            .is_none_or(|policy| policy.features.has(feature))
    }

    /// Text placed before the home's own instructions.
    pub(crate) fn specialization(&self) -> Option<&str> {
        let text = self.directives.as_ref()?.specialization.trim();
        (!text.is_empty()).then_some(text)
    }

    /// The model, if the operator sets one.
    pub fn model(&self) -> Option<&str> {
        self.directives.as_ref()?.model.as_deref()
    }

    /// The approval timeout: the operator's, or the home's if that is shorter.
    pub(crate) fn approval_timeout(&self, usual: Duration, written: Option<Duration>) -> Duration {
        let Some(directives) = &self.directives else {
            return usual;
        };
        let limit = Duration::from_secs(directives.approval_timeout_seconds.get());
        written.map_or(limit, |written| limit.min(written))
    }

    pub fn egress(&self) -> &Egress {
        &self.egress
    }

    /// Limits on the number and frequency of jobs.
    pub fn job_limits(&self) -> Option<JobLimits> {
        let cron = self.rules()?.cron;
        Some(JobLimits {
            max_jobs: usize::try_from(cron.max_jobs).unwrap_or(usize::MAX),
            min_interval_minutes: cron.min_interval_minutes,
        })
    }

    /// How many runs may be active at once: the operator's limit, or the home's if that is lower.
    pub fn max_concurrent_runs(&self, wanted: usize) -> usize {
        let Some(policy) = self.rules() else {
            return wanted;
        };
        let limit = policy.runs.max_concurrent.get();
        usize::try_from(limit).map_or(wanted, |limit| limit.min(wanted))
    }

    pub fn max_run_time(&self) -> Option<Duration> {
        let minutes = self.rules()?.runs.max_minutes.get();
        Some(Duration::from_mins(minutes.into()))
    }

    /// Whether the agent may have an environment variable.
    pub fn allows_variable(&self, name: &str) -> bool {
        self.rules().is_none_or(|policy| policy.env.allows(name))
    }

    pub fn denies_same_variables(&self, other: &Self) -> bool {
        self.denied_variables() == other.denied_variables()
    }

    fn denied_variables(&self) -> &[String] {
        self.rules().map_or(&[], |policy| &policy.env.deny)
    }
}

/// The policy in force. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct PolicyHandle {
    cell: Arc<ArcSwap<AgentPolicy>>,
}

impl PolicyHandle {
    pub fn new(policy: AgentPolicy) -> Self {
        Self {
            cell: Arc::new(ArcSwap::from_pointee(policy)),
        }
    }

    pub fn set(&self, policy: AgentPolicy) {
        self.cell.store(Arc::new(policy));
    }

    pub fn policy(&self) -> Arc<AgentPolicy> {
        self.cell.load_full()
    }
}
