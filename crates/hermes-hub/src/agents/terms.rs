//! What the Hub's records say about running a tenant. Who keeps the records puts it together.

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

/// When an agent is to be awake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waking {
    /// When there is something to do.
    Demand,
    /// Only when somebody starts it.
    Order,
    /// Always: it listens to a messaging platform.
    Always,
}

/// What a tenant's agent is started with, and how it is treated.
#[derive(Debug, Clone)]
pub struct Terms {
    /// What it is started with.
    pub launch: Launch,
    /// Whether it may run at all.
    pub access: AccessStatus,
    /// When it is to be awake.
    pub waking: Waking,
    /// How long it stays awake without work.
    pub idle_stop: Duration,
    /// How many runs at once.
    pub max_concurrent_runs: u32,
    /// How many runs may wait.
    pub queue_depth: u32,
    /// How long a run may take.
    pub longest_run: Duration,
    /// Variables that it has but is not started with, because they decide what code programs load.
    pub ignored_variables: Vec<String>,
    /// The tenant's settings that these come from.
    pub generation: u64,
    /// The Hub's documents that these come from.
    pub revisions: Vec<(DocumentKind, u64)>,
}

impl Terms {
    /// Whether an agent that was started with others has to be started anew to work with these.
    pub(super) fn need_a_start_after(&self, old: &Self) -> bool {
        let (new, old) = (&self.launch, &old.launch);
        new.runtime_key != old.runtime_key
            || new.env != old.env
            || new.teams != old.teams
            || new.timezone != old.timezone
            || new.limits != old.limits
    }
}

/// What happens to a due time that passed while nobody looked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MissedRuns {
    /// One run makes up for it, if it is not too late.
    #[default]
    Once,
    /// Nothing.
    Skip,
}

/// Whether a tenant may take more disk space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    /// It is within its quota.
    Left,
    /// It is over its quota.
    Full,
}

/// Who lets a tenant's jobs run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ticker {
    /// The Hub.
    Hub,
    /// A gateway of a linked home that is none of the Hub's.
    OwnGateway,
}

/// What the clock has to know of a tenant.
#[derive(Debug, Clone)]
pub struct Calendar {
    /// Its home, where its jobs are.
    pub home: PathBuf,
    /// The zone of its schedules.
    pub zone: TimeZone,
    /// Whether it may run at all.
    pub access: AccessStatus,
    /// What happens to times that were missed.
    pub missed: MissedRuns,
    /// Whether it may take more disk space.
    pub room: Room,
    /// Who lets its jobs run.
    pub ticker: Ticker,
    /// What the policy leaves to its jobs.
    pub limits: JobLimits,
}

/// Knows tenants: their records, flavors and secrets.
#[async_trait]
pub trait Tenancy: Send + Sync + 'static {
    /// What a tenant's agent is started with. A problem if there is no such tenant, or not any more.
    async fn terms(&self, tenant: &TenantId) -> Result<Terms, Problem>;

    /// Where a tenant lives.
    fn home(&self, tenant: &TenantHome) -> PathBuf;

    /// What the clock has to know. Cheap: no secrets.
    async fn calendar(&self, tenant: &TenantId) -> Result<Calendar, Problem>;
}
