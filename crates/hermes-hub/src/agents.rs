//! The agents of tenants: started on demand, stopped when idle, restarted when they fail. How an agent runs is up to
//! the [`Runtime`].
//!
//! There is one `Seat` per tenant whose agent has ever run. A caller that needs an agent takes a guard, which keeps the
//! agent from being stopped as idle, and [wakes](Agents::wake) it. Concurrent callers cause one start.

mod failing;
mod ignored;
mod seat;
mod starting;
mod terms;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use tokio::{sync::watch, time::MissedTickBehavior};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::seat::{Phase, Seat};
pub use self::terms::{Calendar, MissedRuns, Room, Tenancy, Terms, Ticker, Waking};
use crate::{
    Code, Problem, TenantId,
    metrics::Metrics,
    runtime::{Death, DeathCause, Life, Runtime, RuntimeError},
    shapes::{AgentPhase, AgentState},
    state::State,
};

/// How long runs get to end when an agent is stopped.
const PATIENCE: Duration = Duration::from_secs(10);

const ROUND: Duration = Duration::from_secs(1);

pub struct Agents {
    state: Arc<dyn State>,
    runtime: Arc<dyn Runtime>,
    tenancy: Arc<dyn Tenancy>,
    node: String,
    seats: Mutex<HashMap<TenantId, Seat>>,
    tasks: TaskTracker,
    closing: CancellationToken,
    metrics: Arc<Metrics>,
}

impl Agents {
    /// Spawns the health check task. Call it inside a tokio runtime.
    pub fn new(
        state: Arc<dyn State>,
        runtime: Arc<dyn Runtime>,
        tenancy: Arc<dyn Tenancy>,
        node: String,
    ) -> Arc<Self> {
        let agents = Arc::new(Self {
            state,
            runtime,
            tenancy,
            node,
            seats: Mutex::default(),
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
            metrics: Arc::default(),
        });
        let closing = agents.closing.clone();
        agents
            .tasks
            .spawn(look_after(Arc::downgrade(&agents), closing));
        agents
    }

    pub fn runtime(&self) -> &Arc<dyn Runtime> {
        &self.runtime
    }

    /// Metrics of the agents and of everything that uses them.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    pub fn tenancy(&self) -> &Arc<dyn Tenancy> {
        &self.tenancy
    }

    pub async fn state(&self, tenant: &TenantId) -> AgentState {
        self.look(tenant).await;
        let pid = match self.runtime.life(tenant).await {
            Life::Running { pid } => pid,
            Life::Stopped | Life::Ended(_) => None,
        };
        self.seat(tenant, |seat| seat.shown(pid, &self.node))
    }

    /// Whether a tenant's agent has a process, or is about to have one.
    pub fn is_awake(&self, tenant: &TenantId) -> bool {
        let seats = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
        seats.get(tenant).is_some_and(Seat::is_awake)
    }

    /// Tenants whose agent has a process, or is about to have one.
    pub fn awake(&self) -> Vec<TenantId> {
        let seats = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
        let awake = seats.iter().filter(|(_, seat)| seat.is_awake());
        awake.map(|(tenant, _)| tenant.clone()).collect()
    }

    /// Number of agents in each state, of those that have ever run.
    pub fn count_by_state(&self) -> BTreeMap<AgentPhase, u64> {
        let seats = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
        let mut counts = BTreeMap::new();
        for seat in seats.values() {
            *counts.entry(seat.shown_phase()).or_default() += 1;
        }
        counts
    }

    /// Starts an agent in the background, also one that has failed too often.
    pub fn start(self: &Arc<Self>, tenant: &TenantId) -> AgentState {
        self.seat(tenant, Seat::forgive);
        let agents = Arc::clone(self);
        let woken = tenant.clone();
        self.tasks.spawn(async move {
            // The reason of a failure is in the agent's state.
            let _ = agents.wake_as(&woken, Waking::Order).await;
        });
        self.seat(tenant, |seat| seat.shown(None, &self.node))
    }

    /// Stops an agent in the background.
    pub fn stop(self: &Arc<Self>, tenant: &TenantId) -> AgentState {
        let agents = Arc::clone(self);
        let stopped = tenant.clone();
        self.tasks
            .spawn(async move { agents.settle(&stopped).await });
        self.seat(tenant, |seat| seat.shown(None, &self.node))
    }

    /// Restarts an agent in the background.
    pub fn restart(self: &Arc<Self>, tenant: &TenantId) -> AgentState {
        let agents = Arc::clone(self);
        let restarted = tenant.clone();
        self.tasks.spawn(async move {
            agents.settle(&restarted).await;
            agents.start(&restarted);
        });
        self.seat(tenant, |seat| seat.shown(None, &self.node))
    }

    /// Stops an agent and waits until its processes are gone: before its home is moved or its access ends.
    pub async fn settle(self: &Arc<Self>, tenant: &TenantId) {
        self.put_down(tenant, Phase::Stopped).await;
    }

    /// Keeps a tenant's agent from being stopped as idle while the guard lives.
    pub fn enter(self: &Arc<Self>, tenant: &TenantId) -> Busy {
        self.seat(tenant, |seat| seat.active += 1);
        Busy {
            agents: Arc::clone(self),
            tenant: tenant.clone(),
        }
    }

    /// Returns when the agent accepts runs. Waits out the backoff of an agent that failed; one that failed too often is
    /// a problem.
    pub async fn wake(self: &Arc<Self>, tenant: &TenantId) -> Result<Arc<Terms>, Problem> {
        self.wake_as(tenant, Waking::Demand).await
    }

    /// Reports that an agent did not answer: it is checked, and restarted if it is not healthy.
    pub async fn doubt(self: &Arc<Self>, tenant: &TenantId) {
        // An agent that has exited counts as a failure and backs off.
        self.look(tenant).await;
        if self.seat(tenant, Seat::doubt) {
            self.begin_start(tenant);
        }
    }

    /// Applies the effective settings to a running agent. Settings that need a restart, such as variables, take effect
    /// when the agent is idle and restarted. Other agents get all settings when they start.
    pub async fn apply(&self, tenant: &TenantId) -> Result<(), Problem> {
        if self.seat(tenant, |seat| seat.phase()) != Phase::Up {
            return Ok(());
        }
        let terms = Arc::new(self.tenancy.terms(tenant).await?);
        self.runtime
            .apply(tenant, &terms.launch.directives)
            .await
            .map_err(|error| problem(&error))?;
        self.note_applied(&terms).await;
        let is_stale = self.seat(tenant, |seat| {
            let began_with = seat.terms.replace(Arc::clone(&terms));
            seat.is_stale |= began_with.is_some_and(|old| terms.need_a_start_after(&old));
            seat.is_stale
        });
        if !is_stale {
            self.note_observed(tenant, &terms).await;
        }
        Ok(())
    }

    /// How a tenant's agent exited after this moment, if it did.
    pub fn death_since(&self, tenant: &TenantId, moment: Instant) -> Option<Death> {
        self.seat(tenant, |seat| seat.death_since(moment))
    }

    /// Records that settings in a tenant's home have changed. Returns true if its agent is starting: it reloads them
    /// before it accepts a run.
    pub fn take_news(&self, tenant: &TenantId) -> bool {
        self.seat(tenant, |seat| {
            seat.has_news = seat.phase() == Phase::Starting;
            seat.has_news
        })
    }

    pub async fn close(self: &Arc<Self>) {
        self.closing.cancel();
        let awake = self.awake();
        futures::future::join_all(awake.iter().map(|tenant| self.settle(tenant))).await;
        self.tasks.close();
        self.tasks.wait().await;
    }

    fn seat<T>(&self, tenant: &TenantId, act: impl FnOnce(&mut Seat) -> T) -> T {
        let mut seats = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
        act(seats.entry(tenant.clone()).or_default())
    }

    /// Records a failure if an agent that should be running has exited.
    async fn look(&self, tenant: &TenantId) {
        if self.seat(tenant, |seat| seat.phase()) != Phase::Up {
            return;
        }
        let death = match self.runtime.life(tenant).await {
            Life::Running { .. } => return,
            Life::Ended(death) => death,
            Life::Stopped => Death::of(DeathCause::Unknown),
        };
        let is_new = self.seat(tenant, |seat| {
            let is_new = seat.phase() == Phase::Up;
            if is_new {
                seat.die(death.clone());
            }
            is_new
        });
        if is_new {
            self.note_death(tenant, &death).await;
        }
    }

    /// Checks running agents: whether they have exited or are idle.
    async fn look_at_all(self: &Arc<Self>) {
        for tenant in self.awake() {
            self.look(&tenant).await;
            if self.seat(&tenant, |seat| seat.is_tired()) {
                self.put_down(&tenant, Phase::Asleep).await;
            }
        }
        let wanted: Vec<TenantId> = {
            let mut seats = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
            let seats = seats.iter_mut();
            let wanted = seats.filter_map(|(tenant, seat)| seat.wants_up().then(|| tenant.clone()));
            wanted.collect()
        };
        for tenant in wanted {
            self.seat(&tenant, |seat| seat.turn_to(Phase::Starting));
            self.begin_start(&tenant);
        }
    }
}

/// Runs until the agents are closed or dropped.
async fn look_after(agents: std::sync::Weak<Agents>, closing: CancellationToken) {
    let mut rounds = tokio::time::interval(ROUND);
    rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while closing.run_until_cancelled(rounds.tick()).await.is_some() {
        let Some(agents) = agents.upgrade() else {
            return;
        };
        agents.look_at_all().await;
    }
}

/// Keeps an agent from being stopped as idle.
pub struct Busy {
    agents: Arc<Agents>,
    tenant: TenantId,
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.agents.seat(&self.tenant, |seat| {
            seat.active = seat.active.saturating_sub(1);
            seat.idle_since = Instant::now();
        });
    }
}

/// Waits until an agent is neither starting nor stopping.
async fn settled(mut phase: watch::Receiver<Phase>) {
    let is_settled = |phase: &Phase| !matches!(phase, Phase::Starting | Phase::Stopping);
    let _ = phase.wait_for(is_settled).await;
}

pub(crate) fn problem(error: &RuntimeError) -> Problem {
    let message = error.to_string();
    match error {
        RuntimeError::NoStart(_) | RuntimeError::Died(_) | RuntimeError::Unreachable(_) => {
            Problem::new(Code::Unavailable, message).retry_after(1000)
        }
        RuntimeError::Unknown(_) => Problem::not_found(message),
        RuntimeError::Refused(_) => Problem::precondition(message),
        RuntimeError::Unable(_) => Problem::new(Code::Unimplemented, message),
    }
}
