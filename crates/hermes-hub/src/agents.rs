//! The agents of tenants: woken when there is something to do, put to sleep when there is not, started again when they
//! fail. What an agent is, and how it runs, is the [`Runtime`]'s business.
//!
//! There is one `Seat` per tenant that was ever awake. Whoever needs an agent [enters](Agents::enter),
//! which keeps it from falling asleep, and [wakes](Agents::wake) it; however many do so at once, it is started once.

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

/// How long runs may take to end when an agent is stopped.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often those who are awake are looked at.
const ROUND: Duration = Duration::from_secs(1);

/// All agents of this node.
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
    /// Begins to look after agents. Call it inside a tokio runtime.
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

    /// What runs them.
    pub fn runtime(&self) -> &Arc<dyn Runtime> {
        &self.runtime
    }

    /// Figures about them, and about all that works with them.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// What is known of tenants.
    pub fn tenancy(&self) -> &Arc<dyn Tenancy> {
        &self.tenancy
    }

    /// How a tenant's agent is.
    pub async fn state(&self, tenant: &TenantId) -> AgentState {
        self.look(tenant).await;
        let pid = match self.runtime.life(tenant).await {
            Life::Running { pid } => pid,
            Life::Stopped | Life::Ended(_) => None,
        };
        self.seat(tenant, |seat| seat.shown(pid, &self.node))
    }

    /// Whether a tenant's agent has a process, or is about to.
    pub fn is_awake(&self, tenant: &TenantId) -> bool {
        let seats = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
        seats.get(tenant).is_some_and(Seat::is_awake)
    }

    /// Those that have a process, or are about to.
    pub fn awake(&self) -> Vec<TenantId> {
        let seats = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
        let awake = seats.iter().filter(|(_, seat)| seat.is_awake());
        awake.map(|(tenant, _)| tenant.clone()).collect()
    }

    /// How many are in which state, of those that were ever awake.
    pub fn count_by_state(&self) -> BTreeMap<AgentPhase, u64> {
        let seats = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
        let mut counts = BTreeMap::new();
        for seat in seats.values() {
            *counts.entry(seat.shown_phase()).or_default() += 1;
        }
        counts
    }

    /// Begins to start an agent, also one that has failed too often. Returns at once.
    pub fn start(self: &Arc<Self>, tenant: &TenantId) -> AgentState {
        self.seat(tenant, Seat::forgive);
        let agents = Arc::clone(self);
        let woken = tenant.clone();
        self.tasks.spawn(async move {
            // Why it failed stands in its state.
            let _ = agents.wake_as(&woken, Waking::Order).await;
        });
        self.seat(tenant, |seat| seat.shown(None, &self.node))
    }

    /// Begins to stop an agent. Returns at once.
    pub fn stop(self: &Arc<Self>, tenant: &TenantId) -> AgentState {
        let agents = Arc::clone(self);
        let stopped = tenant.clone();
        self.tasks
            .spawn(async move { agents.settle(&stopped).await });
        self.seat(tenant, |seat| seat.shown(None, &self.node))
    }

    /// Begins to stop an agent and to start it again. Returns at once.
    pub fn restart(self: &Arc<Self>, tenant: &TenantId) -> AgentState {
        let agents = Arc::clone(self);
        let restarted = tenant.clone();
        self.tasks.spawn(async move {
            agents.settle(&restarted).await;
            agents.start(&restarted);
        });
        self.seat(tenant, |seat| seat.shown(None, &self.node))
    }

    /// Stops an agent and returns when nothing of it is left: before its home is moved or its access ends.
    pub async fn settle(self: &Arc<Self>, tenant: &TenantId) {
        self.put_down(tenant, Phase::Stopped).await;
    }

    /// Keeps a tenant's agent awake as long as the result lives.
    pub fn enter(self: &Arc<Self>, tenant: &TenantId) -> Busy {
        self.seat(tenant, |seat| seat.active += 1);
        Busy {
            agents: Arc::clone(self),
            tenant: tenant.clone(),
        }
    }

    /// Returns when the agent takes runs. One that failed is waited for; one that failed too often is a problem.
    pub async fn wake(self: &Arc<Self>, tenant: &TenantId) -> Result<Arc<Terms>, Problem> {
        self.wake_as(tenant, Waking::Demand).await
    }

    /// Says that an agent did not answer: it is asked whether it is well, and started anew if not.
    pub async fn doubt(self: &Arc<Self>, tenant: &TenantId) {
        // One that has ended counts as a failure and rests.
        self.look(tenant).await;
        if self.seat(tenant, Seat::doubt) {
            self.begin_start(tenant);
        }
    }

    /// Hands the settings in force to an agent that is awake. What it can take only at a start, such as its variables,
    /// it gets when it has no work and is started anew. Others get all of them when they start.
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

    /// What ended a tenant's agent after this moment, if anything did.
    pub fn death_since(&self, tenant: &TenantId, moment: Instant) -> Option<Death> {
        self.seat(tenant, |seat| seat.death_since(moment))
    }

    /// Says that settings in a tenant's home are others. True if its agent starts now, and learns of them before it
    /// takes a run.
    pub fn take_news(&self, tenant: &TenantId) -> bool {
        self.seat(tenant, |seat| {
            seat.has_news = seat.phase() == Phase::Starting;
            seat.has_news
        })
    }

    /// Stops all agents.
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

    /// Takes note if an agent that should be up has ended.
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

    /// Looks at those that are up: have they ended, have they nothing to do?
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

/// Looks after agents until they are closed or forgotten.
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

/// Somebody works with an agent.
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

/// Waits until an agent is no longer on its way up or down.
async fn settled(mut phase: watch::Receiver<Phase>) {
    let is_settled = |phase: &Phase| !matches!(phase, Phase::Starting | Phase::Stopping);
    let _ = phase.wait_for(is_settled).await;
}

/// What a runtime says, as clients see it.
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
