//! The agents of tenants: started on demand, stopped when idle, restarted when they fail. How an agent runs is up to
//! the [`Runtime`].
//!
//! There is one `AgentSlot` per tenant whose agent has ever run. A caller that needs an agent takes a guard, which keeps the
//! agent from being stopped as idle, and [wakes](Agents::wake) it. Concurrent callers cause one start.

mod failures;
mod ignored_variables;
mod slot;
mod spec;
mod start_stop;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use hermes_config::sync::Mutex;
use tokio::{sync::watch, time::MissedTickBehavior};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use crate::tenants::agents::spec::{
    AgentSpec, CronContext, CronRunner, MissedRunPolicy, QuotaState, TenantLookup, WakePolicy,
};
use crate::{
    Problem, ProblemCode, TenantId,
    api_types::{AccessStatus, AgentPhase, AgentState},
    metrics::Metrics,
    storage::state::State,
    tenants::{
        agents::slot::{AgentSlot, SlotPhase},
        bots::ConnectedBots,
        leases::Leases,
        runtime::{AgentExit, ExitCause, ProcessStatus, Runtime, RuntimeError},
    },
};

/// How long runs get to end when an agent is stopped.
const STOP_GRACE: Duration = Duration::from_secs(10);

const HEALTH_CHECK_INTERVAL: Duration = Duration::from_secs(1);

pub struct Agents {
    state: Arc<dyn State>,
    runtime: Arc<dyn Runtime>,
    tenant_lookup: Arc<dyn TenantLookup>,
    leases: Arc<Leases>,
    node: String,
    slots: Mutex<HashMap<TenantId, AgentSlot>>,
    tasks: TaskTracker,
    closing: CancellationToken,
    metrics: Arc<Metrics>,
    bots: ConnectedBots,
}

impl Agents {
    /// The agents of a node that has its database for itself.
    pub fn new(
        state: Arc<dyn State>,
        runtime: Arc<dyn Runtime>,
        tenant_lookup: Arc<dyn TenantLookup>,
        node: String,
    ) -> Arc<Self> {
        let leases = Leases::alone(Arc::clone(&state));
        Self::with_leases(state, runtime, tenant_lookup, node, leases)
    }

    /// Agents run only for tenants whose lease this node holds. Spawns the health check task. Call it inside a tokio
    /// runtime.
    pub fn with_leases(
        state: Arc<dyn State>,
        runtime: Arc<dyn Runtime>,
        tenant_lookup: Arc<dyn TenantLookup>,
        node: String,
        leases: Arc<Leases>,
    ) -> Arc<Self> {
        let agents = Arc::new(Self {
            state,
            runtime,
            tenant_lookup,
            leases,
            node,
            slots: Mutex::default(),
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
            metrics: Arc::default(),
            bots: ConnectedBots::default(),
        });
        let closing = agents.closing.clone();
        agents
            .tasks
            .spawn(run_health_checks(Arc::downgrade(&agents), closing));
        agents
    }

    pub fn runtime(&self) -> &Arc<dyn Runtime> {
        &self.runtime
    }

    pub fn leases(&self) -> &Arc<Leases> {
        &self.leases
    }

    /// Metrics of the agents and of everything that uses them.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// The bots that agents are connected to.
    pub fn bots(&self) -> &ConnectedBots {
        &self.bots
    }

    pub fn tenant_lookup(&self) -> &Arc<dyn TenantLookup> {
        &self.tenant_lookup
    }

    pub async fn state(&self, tenant: &TenantId) -> AgentState {
        self.check_exited(tenant).await;
        let pid = match self.runtime.status(tenant).await {
            ProcessStatus::Running { pid } => pid,
            ProcessStatus::Stopped | ProcessStatus::Exited(_) => None,
        };
        self.with_slot(tenant, |slot| slot.public_state(pid, &self.node))
    }

    /// Whether a tenant's agent has a process, or is about to have one.
    pub fn is_awake(&self, tenant: &TenantId) -> bool {
        let seats = self.slots.lock();
        seats.get(tenant).is_some_and(AgentSlot::is_awake)
    }

    /// Tenants whose agent has a process, or is about to have one.
    pub fn awake(&self) -> Vec<TenantId> {
        let seats = self.slots.lock();
        let awake = seats.iter().filter(|(_, slot)| slot.is_awake());
        awake.map(|(tenant, _)| tenant.clone()).collect()
    }

    /// Number of agents in each state, of those that have ever run.
    pub fn count_by_state(&self) -> BTreeMap<AgentPhase, u64> {
        let seats = self.slots.lock();
        let mut counts = BTreeMap::new();
        for slot in seats.values() {
            *counts.entry(slot.public_phase()).or_default() += 1;
        }
        counts
    }

    /// Starts an agent in the background, also one that has failed too often.
    pub fn start(self: &Arc<Self>, tenant: &TenantId) -> AgentState {
        self.with_slot(tenant, AgentSlot::clear_failures);
        let agents = Arc::clone(self);
        let woken = tenant.clone();
        self.tasks.spawn(async move {
            // The reason of a failure is in the agent's state.
            let _ = agents.wake_as(&woken, WakePolicy::Manual).await;
        });
        self.with_slot(tenant, |slot| slot.public_state(None, &self.node))
    }

    /// Stops an agent in the background.
    pub fn stop(self: &Arc<Self>, tenant: &TenantId) -> AgentState {
        let agents = Arc::clone(self);
        let stopped = tenant.clone();
        self.tasks
            .spawn(async move { agents.stop_and_wait(&stopped).await });
        self.with_slot(tenant, |slot| slot.public_state(None, &self.node))
    }

    /// Restarts an agent in the background.
    pub fn restart(self: &Arc<Self>, tenant: &TenantId) -> AgentState {
        let agents = Arc::clone(self);
        let restarted = tenant.clone();
        self.tasks.spawn(async move {
            agents.stop_and_wait(&restarted).await;
            agents.start(&restarted);
        });
        self.with_slot(tenant, |slot| slot.public_state(None, &self.node))
    }

    /// Stops an agent and waits until its processes are gone: before its home is moved or its access ends.
    pub async fn stop_and_wait(self: &Arc<Self>, tenant: &TenantId) {
        self.stop_agent(tenant, SlotPhase::Stopped, STOP_GRACE)
            .await;
    }

    /// The same, because another node is to work for the tenant. It gets this long.
    pub async fn stop_for_handover(self: &Arc<Self>, tenant: &TenantId, grace: Duration) {
        self.stop_agent(tenant, SlotPhase::Stopped, grace).await;
        // Whatever its phase says: no process may be left in a home that another node has.
        self.runtime.stop(tenant, Duration::ZERO).await;
        // Nobody stopped it for good.
        self.with_slot(tenant, |slot| {
            if slot.phase() == SlotPhase::Stopped {
                slot.set_phase(SlotPhase::Asleep);
            }
        });
    }

    /// Tells the runtime until when processes may live, by the leases that this node holds now.
    pub fn pass_on_leases(&self) {
        for tenant in self.awake() {
            self.pass_on_lease(&tenant);
        }
    }

    fn pass_on_lease(&self, tenant: &TenantId) {
        if let Some(deadline) = self.leases.kill_time(tenant) {
            self.runtime.set_deadline(tenant, deadline);
        }
    }

    /// Keeps a tenant's agent from being stopped as idle while the guard lives.
    pub fn keep_awake(self: &Arc<Self>, tenant: &TenantId) -> AwakeGuard {
        self.with_slot(tenant, |slot| slot.active_users += 1);
        AwakeGuard {
            agents: Arc::clone(self),
            tenant: tenant.clone(),
        }
    }

    /// Returns when the agent accepts runs. Waits out the backoff of an agent that failed; one that failed too often is
    /// a problem.
    pub async fn wake(self: &Arc<Self>, tenant: &TenantId) -> Result<Arc<AgentSpec>, Problem> {
        self.wake_as(tenant, WakePolicy::OnDemand).await
    }

    /// Reports that an agent did not answer: it is checked, and restarted if it is not healthy.
    pub async fn report_unresponsive(self: &Arc<Self>, tenant: &TenantId) {
        // An agent that has exited counts as a failure and backs off.
        self.check_exited(tenant).await;
        if self.with_slot(tenant, AgentSlot::mark_unresponsive) {
            self.spawn_start(tenant);
        }
    }

    /// Applies the effective settings to a running agent. Settings that need a restart, such as variables, take effect
    /// when the agent is idle and restarted. Other agents get all settings when they start.
    pub async fn apply_settings(&self, tenant: &TenantId) -> Result<(), Problem> {
        if self.with_slot(tenant, |slot| slot.phase()) != SlotPhase::Running {
            // One that stops now, or fails to start, would stay down with what it knew before.
            self.look_again(tenant);
            return Ok(());
        }
        let applied = self.apply_to_running(tenant).await;
        if applied.is_err() {
            self.look_again(tenant);
        }
        applied
    }

    async fn apply_to_running(&self, tenant: &TenantId) -> Result<(), Problem> {
        let applying = self.with_slot(tenant, |slot| Arc::clone(&slot.applying));
        let _one_at_a_time = applying.lock().await;
        self.tenant_lookup.prepare_home(tenant).await?;
        let spec = Arc::new(self.tenant_lookup.agent_spec(tenant).await?);
        self.runtime
            .apply(tenant, &spec.launch.directives)
            .await
            .map_err(|error| problem_from_runtime(&error))?;
        self.record_applied_revisions(&spec).await;
        let is_stale = self.with_slot(tenant, |slot| {
            let began_with = slot.spec.replace(Arc::clone(&spec));
            slot.is_stale |= began_with.is_some_and(|old| spec.requires_restart_after(&old));
            slot.is_stale
        });
        if !is_stale {
            self.record_observed_generation(tenant, &spec).await;
        }
        Ok(())
    }

    /// Has an agent that is not running looked at once more, as soon as its settings can be read: it may be always on by
    /// now.
    pub fn look_again(&self, tenant: &TenantId) {
        self.with_slot(tenant, |slot| slot.needs_look = true);
    }

    /// Reads a tenant's spec, and records whether its agent is always on, or would be if the policy allowed messaging: as
    /// long as it does, some node works for the tenant.
    pub(crate) async fn record_always_on(&self, tenant: &TenantId) -> Result<AgentSpec, Problem> {
        let spec = self.tenant_lookup.agent_spec(tenant).await?;
        let has_platform = spec.access == AccessStatus::Active && spec.has_platform;
        self.state.set_always_on(tenant, has_platform).await?;
        Ok(spec)
    }

    /// How a tenant's agent exited after this moment, if it did.
    pub fn exit_since(&self, tenant: &TenantId, moment: Instant) -> Option<AgentExit> {
        self.with_slot(tenant, |slot| slot.exit_since(moment))
    }

    /// Records that settings in a tenant's home have changed. Returns true if its agent is starting: it reloads them
    /// before it accepts a run.
    pub fn mark_settings_changed(&self, tenant: &TenantId) -> bool {
        self.with_slot(tenant, |slot| {
            slot.settings_changed = slot.phase() == SlotPhase::Starting;
            slot.settings_changed
        })
    }

    pub async fn close(self: &Arc<Self>) {
        self.closing.cancel();
        let awake = self.awake();
        futures::future::join_all(awake.iter().map(|tenant| self.stop_and_wait(tenant))).await;
        self.tasks.close();
        self.tasks.wait().await;
    }

    fn with_slot<T>(&self, tenant: &TenantId, act: impl FnOnce(&mut AgentSlot) -> T) -> T {
        let mut seats = self.slots.lock();
        act(seats.entry(tenant.clone()).or_default())
    }

    /// Records a failure if an agent that should be running has exited.
    async fn check_exited(&self, tenant: &TenantId) {
        if self.with_slot(tenant, |slot| slot.phase()) != SlotPhase::Running {
            return;
        }
        let exit = match self.runtime.status(tenant).await {
            ProcessStatus::Running { .. } => return,
            ProcessStatus::Exited(exit) => exit,
            ProcessStatus::Stopped => AgentExit::from_cause(ExitCause::Unknown),
        };
        let is_new = self.with_slot(tenant, |slot| {
            let is_new = slot.phase() == SlotPhase::Running;
            if is_new {
                slot.record_exit(exit.clone());
            }
            is_new
        });
        if is_new {
            self.bots.release_all(tenant);
            self.record_exit(tenant, &exit).await;
        }
    }

    /// Whether an idle agent may sleep after all: its home may have got a messaging platform since it was started.
    async fn may_still_sleep(&self, tenant: &TenantId) -> bool {
        if self.with_slot(tenant, |slot| slot.is_stale) {
            return true;
        }
        let Ok(spec) = self.tenant_lookup.agent_spec(tenant).await else {
            return true;
        };
        let is_always_on = spec.wake_policy == WakePolicy::Always;
        if is_always_on {
            self.with_slot(tenant, AgentSlot::keep_always_on);
        }
        !is_always_on
    }

    /// Looks at agents that are not running and may be always on by now.
    async fn look_at_changed(&self) {
        let changed: Vec<TenantId> = {
            let mut seats = self.slots.lock();
            let seats = seats.iter_mut();
            let changed =
                seats.filter_map(|(tenant, slot)| slot.should_look().then(|| tenant.clone()));
            changed.collect()
        };
        for tenant in changed {
            if self.leases.is_mine(&tenant) && !self.look_at(&tenant).await {
                // The others could not be read either.
                return;
            }
        }
    }

    /// False if nothing can be read now. An agent that is always on is started by the caller.
    async fn look_at(&self, tenant: &TenantId) -> bool {
        // Before the look: what changes meanwhile needs another one.
        self.with_slot(tenant, |slot| slot.needs_look = false);
        match self.record_always_on(tenant).await {
            Ok(spec) => {
                self.with_slot(tenant, |slot| {
                    if spec.access == AccessStatus::Active && slot.phase() == SlotPhase::Asleep {
                        slot.spec = Some(Arc::new(spec));
                    }
                });
                true
            }
            Err(problem) if problem.code == ProblemCode::Unavailable => {
                self.look_again(tenant);
                false
            }
            Err(problem) => {
                tracing::warn!(%tenant, %problem, "failed to find out whether an agent is always on");
                true
            }
        }
    }

    /// Checks running agents: whether they have exited or are idle. Starts those that are down and always on.
    pub async fn check_all(self: &Arc<Self>) {
        for tenant in self.awake() {
            self.check_exited(&tenant).await;
            if self.with_slot(&tenant, |slot| slot.should_stop())
                && self.may_still_sleep(&tenant).await
            {
                self.stop_agent(&tenant, SlotPhase::Asleep, STOP_GRACE)
                    .await;
            }
        }
        self.look_at_changed().await;
        let wanted: Vec<TenantId> = {
            let mut seats = self.slots.lock();
            let seats = seats.iter_mut();
            let wanted =
                seats.filter_map(|(tenant, slot)| slot.should_restart().then(|| tenant.clone()));
            wanted
                .filter(|tenant| self.leases.is_mine(tenant))
                .collect()
        };
        for tenant in wanted {
            self.with_slot(&tenant, |slot| slot.set_phase(SlotPhase::Starting));
            self.spawn_start(&tenant);
        }
    }
}

/// Runs until the agents are closed or dropped.
async fn run_health_checks(agents: std::sync::Weak<Agents>, closing: CancellationToken) {
    let mut rounds = tokio::time::interval(HEALTH_CHECK_INTERVAL);
    rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while closing.run_until_cancelled(rounds.tick()).await.is_some() {
        let Some(agents) = agents.upgrade() else {
            return;
        };
        agents.check_all().await;
    }
}

/// Keeps an agent from being stopped as idle.
pub struct AwakeGuard {
    agents: Arc<Agents>,
    tenant: TenantId,
}

impl Drop for AwakeGuard {
    fn drop(&mut self) {
        self.agents.with_slot(&self.tenant, |slot| {
            slot.active_users = slot.active_users.saturating_sub(1);
            slot.idle_since = Instant::now();
        });
    }
}

/// Waits until an agent is neither starting nor stopping.
async fn wait_until_settled(mut phase: watch::Receiver<SlotPhase>) {
    let is_settled =
        |phase: &SlotPhase| !matches!(phase, SlotPhase::Starting | SlotPhase::Stopping);
    let _ = phase.wait_for(is_settled).await;
}

pub(crate) fn problem_from_runtime(error: &RuntimeError) -> Problem {
    let message = error.to_string();
    match error {
        RuntimeError::StartFailed(_) | RuntimeError::Exited(_) | RuntimeError::Unreachable(_) => {
            Problem::new(ProblemCode::Unavailable, message).with_retry_after(1000)
        }
        RuntimeError::Unknown(_) => Problem::not_found(message),
        RuntimeError::Refused(_) => Problem::precondition(message),
        RuntimeError::Unsupported(_) | RuntimeError::UnreadableEvent(_) => {
            Problem::new(ProblemCode::Unimplemented, message)
        }
    }
}
