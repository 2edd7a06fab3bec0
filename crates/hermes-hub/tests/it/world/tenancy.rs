//! Tenant lookups with the same values for all tenants, which a test may change.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use hermes_hub::{
    Problem, TenantId,
    agents::{Calendar, MissedRuns, Room, Tenancy, Terms, Ticker, Waking},
    runtime::{Directives, Launch, Limits},
    shapes::AccessStatus,
    state::TenantHome,
};
use hermes_store::cron::JobLimits;
use jiff::tz::TimeZone;

/// What a test may change.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    pub(crate) access: AccessStatus,
    pub(crate) waking: Waking,
    pub(crate) idle_stop: Duration,
    pub(crate) max_concurrent_runs: u32,
    pub(crate) queue_depth: u32,
    pub(crate) longest_run: Duration,
    pub(crate) approval_timeout_seconds: u64,
    pub(crate) missed: MissedRuns,
    pub(crate) room: Room,
    pub(crate) ticker: Ticker,
    pub(crate) limits: JobLimits,
    pub(crate) secret: Option<&'static str>,
    pub(crate) generation: u64,
}

pub(crate) struct KnownTenants {
    directory: PathBuf,
    rules: Mutex<Rules>,
    looks: AtomicUsize,
}

impl KnownTenants {
    pub(crate) fn new(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
            looks: AtomicUsize::new(0),
            rules: Mutex::new(Rules {
                access: AccessStatus::Active,
                waking: Waking::Demand,
                idle_stop: Duration::from_mins(15),
                max_concurrent_runs: 4,
                queue_depth: 100,
                longest_run: Duration::from_hours(1),
                approval_timeout_seconds: 900,
                missed: MissedRuns::Once,
                room: Room::Left,
                ticker: Ticker::Hub,
                limits: JobLimits {
                    most_jobs: 50,
                    least_minutes: 1,
                },
                secret: None,
                generation: 1,
            }),
        }
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut Rules)) {
        change(&mut self.rules.lock().unwrap());
    }

    /// How often the scheduler looked up a tenant.
    pub(crate) fn looks(&self) -> usize {
        self.looks.load(Ordering::SeqCst)
    }

    pub(crate) fn home(&self, tenant: &TenantId) -> PathBuf {
        self.directory.join("tenants").join(tenant.as_str())
    }
}

#[async_trait]
impl Tenancy for KnownTenants {
    async fn terms(&self, tenant: &TenantId) -> Result<Terms, Problem> {
        let rules = self.rules.lock().unwrap().clone();
        let secret = rules.secret.map(|secret| secret.to_owned().into());
        Ok(Terms {
            launch: Launch {
                tenant: tenant.clone(),
                home: self.home(tenant),
                runtime_key: "hub_rt_test".to_owned().into(),
                env: secret
                    .map(|secret| ("SECRET".to_owned(), secret))
                    .into_iter()
                    .collect::<BTreeMap<_, _>>(),
                teams: Vec::new(),
                timezone: "UTC".into(),
                limits: Limits {
                    memory_bytes: 1 << 30,
                    pids: 256,
                    cpu: 1.0,
                },
                directives: Directives {
                    approval_timeout_seconds: rules.approval_timeout_seconds,
                    ..Directives::default()
                },
            },
            access: rules.access,
            waking: rules.waking,
            idle_stop: rules.idle_stop,
            max_concurrent_runs: rules.max_concurrent_runs,
            queue_depth: rules.queue_depth,
            longest_run: rules.longest_run,
            ignored_variables: Vec::new(),
            generation: rules.generation,
            revisions: Vec::new(),
        })
    }

    fn home(&self, tenant: &TenantHome) -> PathBuf {
        Self::home(self, &tenant.id)
    }

    async fn calendar(&self, tenant: &TenantId) -> Result<Calendar, Problem> {
        self.looks.fetch_add(1, Ordering::SeqCst);
        let rules = self.rules.lock().unwrap().clone();
        Ok(Calendar {
            home: self.home(tenant),
            zone: TimeZone::UTC,
            access: rules.access,
            missed: rules.missed,
            room: rules.room,
            ticker: rules.ticker,
            limits: rules.limits,
        })
    }
}
