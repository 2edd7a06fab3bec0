//! The scheduler: runs the cron jobs of all tenants when they are due, whether their agents are running or not.
//!
//! Job definitions belong to the agents, in `cron/jobs.json` of each home. The database records what has fired: a due
//! time fires at most once, in the transaction that also sets the next due time, whatever process is killed or started
//! in between. The database also knows which job is next, so that idle tenants cost nothing while nothing is due.

mod due;
pub(crate) mod job_files;

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use hermes_config::sync::Mutex;
use tokio::sync::Notify;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    Problem, TenantId,
    api_types::Time,
    storage::state::{FileVersion, JobFile, State, StateError},
    tenants::{agents::Agents, locks::TenantLocks, runs::Runs},
};

/// The longest sleep, since the system clock may be set meanwhile.
const MAX_SLEEP: Duration = Duration::from_secs(1);

/// How often the next due time is read without a notification: another node may have changed it.
const NEXT_DUE_REFRESH: Duration = Duration::from_secs(30);

/// How often the job files of running agents are checked, which change their jobs themselves.
const AWAKE_SCAN_INTERVAL: Duration = Duration::from_secs(2);

/// How often all job files are checked, since somebody may have edited one by hand.
const FULL_SCAN_INTERVAL: Duration = Duration::from_mins(1);

/// Until due jobs are looked for again whose tenant's home is being restored or handed over.
const NOT_READY_DELAY: Duration = Duration::from_millis(100);

const DATABASE_RETRY_DELAY: Duration = Duration::from_secs(2);

const MAX_DUE_BATCH: u32 = 500;

const PAGE_SIZE: u32 = 1000;

const MAX_CONCURRENT_PLANS: usize = 8;

/// The current time; tests supply their own.
pub type WallClock = Arc<dyn Fn() -> Time + Send + Sync>;

pub struct Scheduler {
    state: Arc<dyn State>,
    agents: Arc<Agents>,
    runs: Arc<Runs>,
    now: WallClock,
    /// Job files as last read.
    seen_files: Mutex<HashMap<TenantId, JobFile>>,
    /// Job files whose due times are in the database.
    stored_files: Mutex<HashMap<TenantId, Option<FileVersion>>>,
    /// One read of a tenant's file at a time: of two, the older one would remove the due times that only the newer one
    /// knows.
    reading: TenantLocks,
    /// Linked homes whose own gateway runs their jobs.
    self_ticking: Mutex<HashSet<TenantId>>,
    next_due_changed: Notify,
    tasks: TaskTracker,
    closing: CancellationToken,
}

impl Scheduler {
    /// Starts the scheduler. Call it inside a tokio runtime.
    pub fn start(state: Arc<dyn State>, agents: Arc<Agents>, runs: Arc<Runs>) -> Arc<Self> {
        Self::start_with_clock(state, agents, runs, Arc::new(Time::now))
    }

    /// Starts a scheduler with another source of time.
    pub fn start_with_clock(
        state: Arc<dyn State>,
        agents: Arc<Agents>,
        runs: Arc<Runs>,
        now: WallClock,
    ) -> Arc<Self> {
        let clock = Arc::new(Self {
            state,
            agents,
            runs,
            now,
            seen_files: Mutex::default(),
            stored_files: Mutex::default(),
            reading: TenantLocks::default(),
            self_ticking: Mutex::default(),
            next_due_changed: Notify::new(),
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
        });
        let ticking = Arc::clone(&clock);
        clock.tasks.spawn(async move { ticking.tick().await });
        let reading = Arc::clone(&clock);
        clock.tasks.spawn(async move { reading.scan_files().await });
        clock
    }

    /// Reloads a tenant's jobs, after a change or when the tenant was restored or unblocked.
    pub async fn reload_jobs(&self, tenant: &TenantId) -> Result<(), Problem> {
        if !self.agents.leases().is_mine(tenant) {
            // The node that works for the tenant has its file.
            return Ok(());
        }
        self.read_tenant_jobs(tenant).await?;
        self.next_due_changed.notify_one();
        Ok(())
    }

    /// Stops the scheduler. Due jobs wait for the next start.
    pub async fn close(&self) {
        self.closing.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Waits for the next due time and fires it.
    async fn tick(&self) {
        loop {
            match self.fire_due().await {
                Ok(round) if round.is_full() => continue,
                Ok(round) if round.waiting > 0 => {
                    if self.pause_until_changed(NOT_READY_DELAY).await {
                        return;
                    }
                    continue;
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(%error, "failed to fire due cron jobs");
                    if self.sleep_for(DATABASE_RETRY_DELAY).await {
                        return;
                    }
                    continue;
                }
            }
            match self.state.next_due().await {
                Ok(next) => {
                    if self.sleep_until(next).await {
                        return;
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "failed to read the next due time");
                    if self.sleep_for(DATABASE_RETRY_DELAY).await {
                        return;
                    }
                }
            }
        }
    }

    /// Sleeps until this time or until something changes. Returns true at shutdown.
    async fn sleep_until(&self, next: Option<Time>) -> bool {
        let trusted = tokio::time::Instant::now() + NEXT_DUE_REFRESH;
        while tokio::time::Instant::now() < trusted {
            let left = next.map_or(i64::MAX, |next| next.millis() - (self.now)().millis());
            let Some(left) = u64::try_from(left).ok().filter(|left| *left > 0) else {
                return false;
            };
            let sleep = Duration::from_millis(left).min(MAX_SLEEP);
            tokio::select! {
                () = tokio::time::sleep(sleep) => {}
                () = self.next_due_changed.notified() => return false,
                () = self.closing.cancelled() => return true,
            }
        }
        false
    }

    /// Sleeps for so long or until something changes. Returns true at shutdown.
    async fn pause_until_changed(&self, rest: Duration) -> bool {
        tokio::select! {
            () = tokio::time::sleep(rest) => false,
            () = self.next_due_changed.notified() => false,
            () = self.closing.cancelled() => true,
        }
    }

    /// Returns true at shutdown.
    async fn sleep_for(&self, rest: Duration) -> bool {
        tokio::select! {
            () = tokio::time::sleep(rest) => false,
            () = self.closing.cancelled() => true,
        }
    }

    /// Checks for changed job files: of all tenants at the start and every minute, of running agents more often. A file
    /// that has not changed since it was last read is not read again, and needs no database query.
    async fn scan_files(&self) {
        // What another node has read says nothing about the files here.
        if !self.agents.leases().is_shared()
            && let Err(error) = self.load_seen_files().await
        {
            tracing::warn!(%error, "failed to load known job files; reading all of them");
        }
        loop {
            if let Err(error) = self.scan_all_files().await {
                tracing::warn!(%error, "failed to scan cron job files");
            }
            let next = tokio::time::Instant::now() + FULL_SCAN_INTERVAL;
            while tokio::time::Instant::now() < next {
                if self.sleep_for(AWAKE_SCAN_INTERVAL).await {
                    return;
                }
                let homes = self.homes_for(self.agents.awake()).await;
                self.read_changed_files(homes).await;
            }
        }
    }

    async fn scan_all_files(&self) -> Result<(), StateError> {
        let leases = self.agents.leases();
        if leases.is_shared() {
            let homes = self.homes_for(leases.held()).await;
            self.read_changed_files(homes).await;
            return Ok(());
        }
        let tenant_lookup = self.agents.tenant_lookup();
        let mut last = None;
        loop {
            let tenants = self.state.tenant_homes(last.as_ref(), PAGE_SIZE).await?;
            last = tenants.last().map(|tenant| tenant.id.clone());
            if last.is_none() || self.closing.is_cancelled() {
                return Ok(());
            }
            for linked in tenants.iter().filter(|tenant| tenant.linked_home.is_some()) {
                self.check_ticker(&linked.id).await;
            }
            let homes = tenants.into_iter().map(|tenant| {
                let home = tenant_lookup.home(&tenant);
                (tenant.id, home)
            });
            self.read_changed_files(homes.collect()).await;
        }
    }

    async fn homes_for(&self, tenants: Vec<TenantId>) -> Vec<(TenantId, PathBuf)> {
        let mut homes = Vec::with_capacity(tenants.len());
        for tenant in tenants {
            if let Ok(context) = self.agents.tenant_lookup().cron_context(&tenant).await {
                self.record_ticker(&tenant, context.runner).await;
                homes.push((tenant, context.home));
            }
        }
        homes
    }
}
