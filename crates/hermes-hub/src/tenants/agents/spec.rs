//! What the Hub's records say about running a tenant.

use std::{path::PathBuf, time::Duration};

use async_trait::async_trait;
use hermes_store::cron::JobLimits;
use jiff::tz::TimeZone;

use crate::{
    Problem, TenantId,
    api_types::AccessStatus,
    storage::state::{DocumentKind, TenantHome},
    tenants::runtime::AgentLaunch,
};

/// When an agent runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WakePolicy {
    OnDemand,
    /// Only after an explicit start.
    Manual,
    /// Always: a messaging platform is enabled.
    Always,
}

/// How a tenant's agent is started, and its limits.
#[derive(Debug, Clone)]
pub struct AgentSpec {
    pub launch: AgentLaunch,
    pub access: AccessStatus,
    pub wake_policy: WakePolicy,
    /// Whether it would always be up if the policy allowed messaging.
    pub has_platform: bool,
    pub idle_stop: Duration,
    pub max_concurrent_runs: u32,
    pub queue_depth: u32,
    pub max_run_duration: Duration,
    /// Variables it is started without, because they decide what code programs load.
    pub ignored_variables: Vec<String>,
    /// The generation of the tenant's settings that this comes from.
    pub generation: u64,
    /// The revisions of the Hub's documents that this comes from.
    pub revisions: Vec<(DocumentKind, u64)>,
}

impl AgentSpec {
    /// Whether an agent that was started with `old` needs a restart.
    pub(super) fn requires_restart_after(&self, old: &Self) -> bool {
        let (new, old) = (&self.launch, &old.launch);
        new.runtime_key != old.runtime_key
            || new.env != old.env
            || new.teams != old.teams
            || new.timezone != old.timezone
            || new.limits != old.limits
    }
}

/// What happens to a due time that was missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MissedRunPolicy {
    /// Run once, if it is not too late.
    #[default]
    RunOnce,
    Skip,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuotaState {
    Within,
    Exceeded,
}

/// Which process runs a tenant's cron jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CronRunner {
    Hub,
    /// The gateway of a linked home, which the Hub did not start.
    OwnGateway,
}

/// What the scheduler needs to know about a tenant.
#[derive(Debug, Clone)]
pub struct CronContext {
    pub home: PathBuf,
    pub zone: TimeZone,
    pub access: AccessStatus,
    pub missed_runs: MissedRunPolicy,
    /// Whether it may take more disk space.
    pub quota: QuotaState,
    pub runner: CronRunner,
    /// The policy's limits for its jobs.
    pub limits: JobLimits,
}

/// Looks up tenants: their records, flavors and secrets.
#[async_trait]
pub trait TenantLookup: Send + Sync + 'static {
    /// How a tenant's agent is started. A problem if the tenant does not exist.
    async fn agent_spec(&self, tenant: &TenantId) -> Result<AgentSpec, Problem>;

    /// Makes a tenant's home ready for its agent: the skills that it is given.
    async fn prepare_home(&self, _: &TenantId) -> Result<(), Problem> {
        Ok(())
    }

    /// The current revisions of the Hub's documents.
    fn revisions(&self) -> Vec<(DocumentKind, u64)>;

    fn home(&self, tenant: &TenantHome) -> PathBuf;

    /// What the scheduler needs to know. Cheap: reads no secrets.
    async fn cron_context(&self, tenant: &TenantId) -> Result<CronContext, Problem>;
}
