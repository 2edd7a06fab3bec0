//! What the Hub's records say about running a tenant.

use std::{path::PathBuf, time::Duration};

use async_trait::async_trait;
use hermes_store::cron::JobLimits;
use jiff::tz::TimeZone;

use crate::{
    Problem, TenantId,
    runtime::Launch,
    shapes::AccessStatus,
    state::{DocumentKind, TenantHome},
};

/// When an agent runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waking {
    Demand,
    /// Only after an explicit start.
    Order,
    /// Always: a messaging platform is enabled.
    Always,
}

/// How a tenant's agent is started, and its limits.
#[derive(Debug, Clone)]
pub struct Terms {
    pub launch: Launch,
    pub access: AccessStatus,
    pub waking: Waking,
    pub idle_stop: Duration,
    pub max_concurrent_runs: u32,
    pub queue_depth: u32,
    pub longest_run: Duration,
    /// Variables it is started without, because they decide what code programs load.
    pub ignored_variables: Vec<String>,
    /// The generation of the tenant's settings that this comes from.
    pub generation: u64,
    /// The revisions of the Hub's documents that this comes from.
    pub revisions: Vec<(DocumentKind, u64)>,
}

impl Terms {
    /// Whether an agent that was started with `old` needs a restart.
    pub(super) fn need_a_start_after(&self, old: &Self) -> bool {
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
pub enum MissedRuns {
    /// Run once, if it is not too late.
    #[default]
    Once,
    Skip,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    Left,
    Full,
}

/// Which process runs a tenant's cron jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ticker {
    Hub,
    /// The gateway of a linked home, which the Hub did not start.
    OwnGateway,
}

/// What the scheduler needs to know about a tenant.
#[derive(Debug, Clone)]
pub struct Calendar {
    pub home: PathBuf,
    pub zone: TimeZone,
    pub access: AccessStatus,
    pub missed: MissedRuns,
    /// Whether it may take more disk space.
    pub room: Room,
    pub ticker: Ticker,
    /// The policy's limits for its jobs.
    pub limits: JobLimits,
}

/// Looks up tenants: their records, flavors and secrets.
#[async_trait]
pub trait Tenancy: Send + Sync + 'static {
    /// How a tenant's agent is started. A problem if the tenant does not exist.
    async fn terms(&self, tenant: &TenantId) -> Result<Terms, Problem>;

    fn home(&self, tenant: &TenantHome) -> PathBuf;

    /// What the scheduler needs to know. Cheap: reads no secrets.
    async fn calendar(&self, tenant: &TenantId) -> Result<Calendar, Problem>;
}
