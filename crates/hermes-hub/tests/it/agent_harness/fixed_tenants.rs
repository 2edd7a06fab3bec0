//! Tenant lookups with the same values for all tenants, which a test may change.

use std::{
    collections::{BTreeMap, HashSet},
    num::NonZeroU64,
    path::{Path, PathBuf},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use hermes_hub::{
    Problem, ProblemCode, TenantId,
    api_types::AccessStatus,
    storage::state::{DocumentKind, TenantHome},
    tenants::{
        agents::{
            AgentSpec, CronContext, CronRunner, MissedRunPolicy, QuotaState, TenantLookup,
            WakePolicy,
        },
        runtime::{AgentLaunch, ResourceLimits},
    },
};
use hermes_protocol::{Directives, Policy};
use hermes_store::cron::JobLimits;
use jiff::tz::TimeZone;

/// What a test may change.
#[derive(Debug, Clone)]
pub(crate) struct TenantRules {
    pub(crate) access: AccessStatus,
    pub(crate) waking: WakePolicy,
    pub(crate) idle_stop: Duration,
    pub(crate) max_concurrent_runs: u32,
    pub(crate) queue_depth: u32,
    pub(crate) longest_run: Duration,
    pub(crate) approval_timeout_seconds: NonZeroU64,
    pub(crate) missed: MissedRunPolicy,
    pub(crate) room: QuotaState,
    pub(crate) ticker: CronRunner,
    pub(crate) limits: JobLimits,
    pub(crate) secret: Option<&'static str>,
    pub(crate) generation: u64,
}

pub(crate) struct FixedTenants {
    directory: PathBuf,
    rules: Mutex<TenantRules>,
    lookups: AtomicUsize,
    /// Tenants of which nothing can be read now, and how often somebody has tried.
    unreadable: Mutex<HashSet<TenantId>>,
    refusals: AtomicUsize,
}

impl FixedTenants {
    pub(crate) fn new(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
            lookups: AtomicUsize::new(0),
            unreadable: Mutex::default(),
            refusals: AtomicUsize::new(0),
            rules: Mutex::new(TenantRules {
                access: AccessStatus::Active,
                waking: WakePolicy::OnDemand,
                idle_stop: Duration::from_mins(15),
                max_concurrent_runs: 4,
                queue_depth: 100,
                longest_run: Duration::from_hours(1),
                approval_timeout_seconds: Policy::unrestricted().approvals.timeout_seconds,
                missed: MissedRunPolicy::RunOnce,
                room: QuotaState::Within,
                ticker: CronRunner::Hub,
                limits: JobLimits {
                    max_jobs: 50,
                    min_interval_minutes: 1,
                },
                secret: None,
                generation: 1,
            }),
        }
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut TenantRules)) {
        change(&mut self.rules.lock().unwrap());
    }

    /// How often the scheduler looked up a tenant.
    pub(crate) fn lookups(&self) -> usize {
        self.lookups.load(Ordering::SeqCst)
    }

    /// Nothing about a tenant can be read from now on.
    pub(crate) fn make_unreadable(&self, tenant: &TenantId) {
        self.unreadable.lock().unwrap().insert(tenant.clone());
    }

    pub(crate) fn make_readable(&self, tenant: &TenantId) {
        self.unreadable.lock().unwrap().remove(tenant);
    }

    /// How often something could not be read.
    pub(crate) fn refusals(&self) -> usize {
        self.refusals.load(Ordering::SeqCst)
    }

    fn check_readable(&self, tenant: &TenantId) -> Result<(), Problem> {
        if self.unreadable.lock().unwrap().contains(tenant) {
            self.refusals.fetch_add(1, Ordering::SeqCst);
            return Err(Problem::new(ProblemCode::Unavailable, "no answer"));
        }
        Ok(())
    }

    pub(crate) fn home(&self, tenant: &TenantId) -> PathBuf {
        self.directory.join("tenants").join(tenant.as_str())
    }
}

#[async_trait]
impl TenantLookup for FixedTenants {
    async fn agent_spec(&self, tenant: &TenantId) -> Result<AgentSpec, Problem> {
        self.check_readable(tenant)?;
        let rules = self.rules.lock().unwrap().clone();
        let secret = rules.secret.map(|secret| secret.to_owned().into());
        Ok(AgentSpec {
            launch: AgentLaunch {
                tenant: tenant.clone(),
                home: self.home(tenant),
                runtime_key: "hub_rt_test".to_owned().into(),
                env: secret
                    .map(|secret| ("SECRET".to_owned(), secret))
                    .into_iter()
                    .collect::<BTreeMap<_, _>>(),
                teams: Vec::new(),
                timezone: "UTC".into(),
                limits: ResourceLimits {
                    memory_bytes: 1 << 30,
                    pids: 256,
                    cpu: 1.0,
                },
                directives: Directives {
                    approval_timeout_seconds: rules.approval_timeout_seconds,
                    ..Directives::new(Policy::unrestricted())
                },
            },
            access: rules.access,
            wake_policy: rules.waking,
            has_platform: rules.waking == WakePolicy::Always,
            idle_stop: rules.idle_stop,
            max_concurrent_runs: rules.max_concurrent_runs,
            queue_depth: rules.queue_depth,
            max_run_duration: rules.longest_run,
            ignored_variables: Vec::new(),
            generation: rules.generation,
            revisions: Vec::new(),
        })
    }

    fn revisions(&self) -> Vec<(DocumentKind, u64)> {
        Vec::new()
    }

    fn home(&self, tenant: &TenantHome) -> PathBuf {
        Self::home(self, &tenant.id)
    }

    async fn cron_context(&self, tenant: &TenantId) -> Result<CronContext, Problem> {
        self.check_readable(tenant)?;
        self.lookups.fetch_add(1, Ordering::SeqCst);
        let rules = self.rules.lock().unwrap().clone();
        Ok(CronContext {
            home: self.home(tenant),
            zone: TimeZone::UTC,
            access: rules.access,
            missed_runs: rules.missed,
            quota: rules.room,
            runner: rules.ticker,
            limits: rules.limits,
        })
    }
}
