//! The clock: lets the cron jobs of all tenants run when they are due, asleep or awake.
//!
//! Job definitions are the agents', in `cron/jobs.json` of each home. What has fired is the database's: a due time is
//! dealt with at most once, in the transaction that also moves the job on, whoever is killed or started in between.
//! The database is also what knows which job is next, so that sleeping tenants cost nothing while nothing is due.

mod due;
pub(crate) mod files;

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::sync::Notify;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    Problem, TenantId,
    agents::Agents,
    runs::Runs,
    shapes::Time,
    state::{JobFile, State, StateError},
};

/// The longest sleep: the time of day may be set while the clock sleeps.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// How often the database is asked what is next although nobody said anything: another node may have changed it.
const TRUST: Duration = Duration::from_secs(30);

/// How often the files of those who are awake are looked at. They change their jobs themselves.
const AWAKE_ROUND: Duration = Duration::from_secs(2);

/// How often all files are looked at. Somebody may have edited one by hand.
const FULL_ROUND: Duration = Duration::from_mins(1);

/// How long to wait when the database does not answer.
const DATABASE_REST: Duration = Duration::from_secs(2);

/// Due times that are dealt with at once.
const BATCH: u32 = 500;

/// Homes that are looked at in one go.
const HOMES: u32 = 1000;

/// Tenants whose due jobs are planned side by side.
const PLANS: usize = 8;

/// Tells what time it is.
pub type TimeOfDay = Arc<dyn Fn() -> Time + Send + Sync>;

/// The clock of a node.
pub struct Clock {
    state: Arc<dyn State>,
    agents: Arc<Agents>,
    runs: Arc<Runs>,
    now: TimeOfDay,
    /// The files as they were when they were last read.
    seen: Mutex<HashMap<TenantId, JobFile>>,
    /// Linked homes whose own gateway lets their jobs run.
    own_tickers: Mutex<HashSet<TenantId>>,
    /// What is next may have changed.
    changed: Notify,
    tasks: TaskTracker,
    closing: CancellationToken,
}

impl Clock {
    /// Starts the clock. Call it inside a tokio runtime.
    pub fn start(state: Arc<dyn State>, agents: Arc<Agents>, runs: Arc<Runs>) -> Arc<Self> {
        Self::start_at(state, agents, runs, Arc::new(Time::now))
    }

    /// Starts a clock that takes the time of day from elsewhere.
    pub fn start_at(
        state: Arc<dyn State>,
        agents: Arc<Agents>,
        runs: Arc<Runs>,
        now: TimeOfDay,
    ) -> Arc<Self> {
        let clock = Arc::new(Self {
            state,
            agents,
            runs,
            now,
            seen: Mutex::default(),
            own_tickers: Mutex::default(),
            changed: Notify::new(),
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
        });
        let ticking = Arc::clone(&clock);
        clock.tasks.spawn(async move { ticking.tick().await });
        let reading = Arc::clone(&clock);
        clock.tasks.spawn(async move { reading.read_files().await });
        clock
    }

    /// Takes up a tenant's jobs as they are now: they were changed, or the tenant was restored or unblocked.
    pub async fn changed(&self, tenant: &TenantId) -> Result<(), Problem> {
        self.read_jobs(tenant).await?;
        self.changed.notify_one();
        Ok(())
    }

    /// Stops the clock. What is due waits for the next one.
    pub async fn close(&self) {
        self.closing.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Waits for the next due time, and deals with it.
    async fn tick(&self) {
        loop {
            match self.fire_due().await {
                // More may be due than were dealt with at once.
                Ok(count) if count >= BATCH as usize => continue,
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!("the clock can not deal with what is due: {error}");
                    if self.pause(DATABASE_REST).await {
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
                    tracing::warn!("the clock does not know what is next: {error}");
                    if self.pause(DATABASE_REST).await {
                        return;
                    }
                }
            }
        }
    }

    /// Sleeps until a moment by the time of day, or until something changes. True if the clock is to stop.
    async fn sleep_until(&self, next: Option<Time>) -> bool {
        let trusted = tokio::time::Instant::now() + TRUST;
        while tokio::time::Instant::now() < trusted {
            let left = next.map_or(i64::MAX, |next| next.millis() - (self.now)().millis());
            let Some(left) = u64::try_from(left).ok().filter(|left| *left > 0) else {
                return false;
            };
            let sleep = Duration::from_millis(left).min(LONGEST_SLEEP);
            tokio::select! {
                () = tokio::time::sleep(sleep) => {}
                () = self.changed.notified() => return false,
                () = self.closing.cancelled() => return true,
            }
        }
        false
    }

    /// True if the clock is to stop.
    async fn pause(&self, rest: Duration) -> bool {
        tokio::select! {
            () = tokio::time::sleep(rest) => false,
            () = self.closing.cancelled() => true,
        }
    }

    /// Looks for files that have changed: of all tenants at first and every minute, of those awake more often. What has
    /// not changed since a Hub last read it is not read again, and costs no question to the database.
    async fn read_files(&self) {
        if let Err(error) = self.remember_files().await {
            tracing::warn!("all jobs are read anew, since the database does not answer: {error}");
        }
        loop {
            if let Err(error) = self.look_at_all_files().await {
                tracing::warn!("the jobs of tenants can not be looked at: {error}");
            }
            let next = tokio::time::Instant::now() + FULL_ROUND;
            while tokio::time::Instant::now() < next {
                if self.pause(AWAKE_ROUND).await {
                    return;
                }
                let homes = self.homes_of(self.agents.awake()).await;
                self.look_at_files(homes).await;
            }
        }
    }

    async fn look_at_all_files(&self) -> Result<(), StateError> {
        let tenancy = self.agents.tenancy();
        let mut last = None;
        loop {
            let found = self.state.tenant_homes(last.as_ref(), HOMES).await?;
            last = found.last().map(|tenant| tenant.id.clone());
            if last.is_none() || self.closing.is_cancelled() {
                return Ok(());
            }
            for linked in found.iter().filter(|tenant| tenant.linked_home.is_some()) {
                self.look_at_ticker(&linked.id).await;
            }
            let homes = found.into_iter().map(|tenant| {
                let home = tenancy.home(&tenant);
                (tenant.id, home)
            });
            self.look_at_files(homes.collect()).await;
        }
    }

    async fn homes_of(&self, tenants: Vec<TenantId>) -> Vec<(TenantId, PathBuf)> {
        let mut homes = Vec::with_capacity(tenants.len());
        for tenant in tenants {
            if let Ok(calendar) = self.agents.tenancy().calendar(&tenant).await {
                self.note_ticker(&tenant, calendar.ticker).await;
                homes.push((tenant, calendar.home));
            }
        }
        homes
    }
}
