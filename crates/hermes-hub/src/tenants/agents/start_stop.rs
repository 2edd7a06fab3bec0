//! Starting and stopping an agent, once for any number of concurrent callers.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::{AgentSpec, Agents, SlotPhase, WakePolicy, wait_until_settled};
use crate::{
    Problem, ProblemCode, TenantId,
    api_types::{AccessStatus, Condition, ConditionStatus, Time},
    storage::state::TenantObservation,
    tenants::{
        agents::failures,
        runtime::{AgentExit, Confinement, RuntimeError},
    },
};

/// The time until another attempt where the database does not answer.
const POSTPONED_START: Duration = Duration::from_millis(500);

/// What a caller that needs an agent has to do next.
enum WakeStep {
    /// It should be running.
    CheckAlive,
    /// Another caller is starting or stopping it.
    Wait(tokio::sync::watch::Receiver<SlotPhase>),
    BackOff(Duration),
    /// This caller starts it.
    Start,
    GiveUp(String),
}

enum StartFailure {
    /// What it is started with cannot be read now. The agent has no part in that.
    Postponed(String),
    /// The previous process had exited by itself.
    Exited(AgentExit),
    Failed(String),
}

/// What a caller that wants an agent stopped has to do next.
enum StopStep {
    /// It is starting or stopping.
    Wait(tokio::sync::watch::Receiver<SlotPhase>),
    /// It is running, and this caller stops it.
    Stop,
    /// It is stopped, or has to keep running.
    Done,
}

impl Agents {
    /// See [`Agents::wake`]. An explicit start also wakes agents that are not started on demand.
    pub(super) async fn wake_as(
        self: &Arc<Self>,
        tenant: &TenantId,
        waking: WakePolicy,
    ) -> Result<Arc<AgentSpec>, Problem> {
        loop {
            if self.closing.is_cancelled() {
                return Err(Problem::new(
                    ProblemCode::Unavailable,
                    "the Hub is shutting down",
                ));
            }
            match self.next_wake_step(tenant) {
                WakeStep::CheckAlive => {
                    self.check_exited(tenant).await;
                    let spec = self.with_slot(tenant, |slot| {
                        slot.spec
                            .clone()
                            .filter(|_| slot.phase() == SlotPhase::Running)
                    });
                    match spec {
                        // What was changed before this call holds for it, even if it is still being propagated.
                        Some(spec) if spec.revisions != self.tenant_lookup.revisions() => {
                            self.apply_settings(tenant).await?;
                        }
                        Some(spec) => return Ok(spec),
                        None => {}
                    }
                }
                WakeStep::Wait(phase) => wait_until_settled(phase).await,
                WakeStep::BackOff(rest) => tokio::select! {
                    () = tokio::time::sleep(rest) => {}
                    () = self.closing.cancelled() => {}
                },
                WakeStep::Start => {
                    self.leases.require(tenant).await?;
                    if waking == WakePolicy::OnDemand {
                        self.check_auto_start(tenant).await?;
                    }
                    let is_mine = self.with_slot(tenant, |slot| {
                        let is_down =
                            matches!(slot.phase(), SlotPhase::Asleep | SlotPhase::Stopped);
                        if is_down {
                            slot.set_phase(SlotPhase::Starting);
                        }
                        is_down
                    });
                    if is_mine {
                        self.spawn_start(tenant);
                    }
                }
                WakeStep::GiveUp(reason) => {
                    let message = format!(
                        "the tenant's agent failed too often: {reason}; remove the cause and start it"
                    );
                    return Err(
                        Problem::new(ProblemCode::Unavailable, message).with_reason("agent_failed")
                    );
                }
            }
        }
    }

    fn next_wake_step(&self, tenant: &TenantId) -> WakeStep {
        self.with_slot(tenant, |slot| match slot.phase() {
            SlotPhase::Running => WakeStep::CheckAlive,
            SlotPhase::Starting | SlotPhase::Stopping => WakeStep::Wait(slot.subscribe()),
            SlotPhase::Failed => WakeStep::GiveUp(slot.last_error().to_owned()),
            SlotPhase::Asleep | SlotPhase::Stopped => match slot.backoff_left() {
                rest if rest.is_zero() => WakeStep::Start,
                rest => WakeStep::BackOff(rest),
            },
        })
    }

    async fn check_auto_start(&self, tenant: &TenantId) -> Result<(), Problem> {
        let spec = self.tenant_lookup.agent_spec(tenant).await?;
        if spec.access == AccessStatus::Blocked {
            return Err(Problem::denied("the tenant is blocked").with_reason("tenant_blocked"));
        }
        if spec.wake_policy == WakePolicy::Manual {
            return Err(Problem::new(
                ProblemCode::Unavailable,
                "the tenant's agent does not start by itself; start it",
            )
            .with_reason("agent_stopped"));
        }
        Ok(())
    }

    /// Starts an agent whose phase is already `Starting`. The task is not owned by the caller, so a caller that stops
    /// waiting does not cancel the start.
    pub(super) fn spawn_start(self: &Arc<Self>, tenant: &TenantId) {
        let agents = Arc::clone(self);
        let tenant = tenant.clone();
        self.tasks.spawn(async move {
            let began = Instant::now();
            let Some(launched) = agents.launch_when_possible(&tenant).await else {
                // A process that was only doubted would go on in a home that another node has now.
                agents.runtime.stop(&tenant, Duration::ZERO).await;
                agents.bots.release_all(&tenant);
                agents.with_slot(&tenant, |slot| slot.set_phase(SlotPhase::Asleep));
                return;
            };
            match launched {
                Ok(spec) => {
                    agents
                        .metrics
                        .record_duration("wake_seconds", began.elapsed());
                    agents.reload_home_settings(&tenant, &spec).await;
                    agents.with_slot(&tenant, |slot| slot.mark_running(&spec));
                    let milliseconds = began.elapsed().as_secs_f64() * 1000.0;
                    tracing::info!(%tenant, milliseconds, "agent started");
                    if agents.leases.is_mine(&tenant) {
                        agents.apply_missed_changes(&tenant, &spec).await;
                    } else {
                        agents.stop_for_handover(&tenant, Duration::ZERO).await;
                    }
                }
                Err(StartFailure::Exited(exit)) => {
                    agents.bots.release_all(&tenant);
                    agents.with_slot(&tenant, |slot| slot.record_exit(exit.clone()));
                    agents.record_exit(&tenant, &exit).await;
                }
                Err(StartFailure::Failed(reason) | StartFailure::Postponed(reason)) => {
                    agents.with_slot(&tenant, |slot| slot.record_failure(reason.clone()));
                    agents.record_failed_start(&tenant, &reason).await;
                }
            }
        });
    }

    /// Waits for a database that does not answer. `None` if the lease is lost meanwhile, or before, or the Hub stops.
    async fn launch_when_possible(
        &self,
        tenant: &TenantId,
    ) -> Option<Result<Arc<AgentSpec>, StartFailure>> {
        loop {
            if !self.leases.is_mine(tenant) || self.closing.is_cancelled() {
                return None;
            }
            match self.launch_agent(tenant).await {
                Err(StartFailure::Postponed(reason)) => {
                    tracing::warn!(%tenant, reason, "agent start postponed");
                    tokio::time::sleep(POSTPONED_START).await;
                }
                launched => return Some(launched),
            }
        }
    }

    async fn launch_agent(&self, tenant: &TenantId) -> Result<Arc<AgentSpec>, StartFailure> {
        if let Err(problem) = self.tenant_lookup.prepare_home(tenant).await {
            tracing::warn!(%tenant, %problem, "failed to bring the skills of a tenant up to date");
        }
        let spec = self.tenant_lookup.agent_spec(tenant).await;
        let spec = Arc::new(spec.map_err(|problem| match problem.code {
            ProblemCode::Unavailable => StartFailure::Postponed(problem.message),
            _ => StartFailure::Failed(problem.message),
        })?);
        self.pass_on_lease(tenant);
        let started = self.runtime.start(spec.launch.clone()).await;
        let confinement = started.map_err(|error| match error {
            RuntimeError::Exited(exit) => StartFailure::Exited(exit),
            error => StartFailure::Failed(error.to_string()),
        })?;
        self.record_confinement(tenant, &spec, &confinement).await;
        self.record_ignored_variables(tenant, &spec).await;
        self.record_applied_revisions(&spec).await;
        Ok(spec)
    }

    /// Has an agent that has just started reload what changed in its home during the start.
    async fn reload_home_settings(&self, tenant: &TenantId, spec: &AgentSpec) {
        while self.with_slot(tenant, |slot| std::mem::take(&mut slot.settings_changed)) {
            let directives = &spec.launch.directives;
            if let Err(error) = self.runtime.apply(tenant, directives).await {
                tracing::warn!(%tenant, %error, "failed to reload settings in a starting agent");
                return;
            }
        }
    }

    /// Applies what changed during the start: changes are pushed to running agents only.
    async fn apply_missed_changes(&self, tenant: &TenantId, known: &AgentSpec) {
        let is_behind = |spec: &AgentSpec| {
            spec.revisions != known.revisions || spec.generation != known.generation
        };
        let caught_up = match self.tenant_lookup.agent_spec(tenant).await {
            Ok(spec) if is_behind(&spec) => self.apply_settings(tenant).await,
            Ok(_) => Ok(()),
            Err(problem) => Err(problem),
        };
        if let Err(problem) = caught_up {
            tracing::warn!(%tenant, %problem, "failed to apply settings that changed during the start");
            self.with_slot(tenant, |slot| slot.is_stale = true);
            self.look_again(tenant);
        }
    }

    /// Stores the confinement as conditions, if it has changed.
    async fn record_confinement(&self, tenant: &TenantId, spec: &AgentSpec, found: &[Confinement]) {
        let Ok(Some(record)) = self.state.tenant(tenant).await else {
            return;
        };
        let now = Time::now();
        let is_new = |condition: &Condition| {
            let known = record
                .conditions
                .iter()
                .find(|known| known.kind == condition.kind);
            known.is_none_or(|known| {
                known.status != condition.status || known.reason != condition.reason
            })
        };
        let conditions: Vec<Condition> = found
            .iter()
            .map(|confinement| confinement_condition(confinement, now))
            .filter(is_new)
            .chain(failures::recovered_condition(&record.conditions))
            .collect();
        let is_observed = record.observed_generation >= spec.generation;
        if conditions.is_empty() && is_observed {
            return;
        }
        let observation = TenantObservation {
            conditions,
            observed_generation: Some(spec.generation),
            ..TenantObservation::default()
        };
        if let Err(error) = self.state.observe_tenant(tenant, observation).await {
            tracing::warn!(%tenant, %error, "failed to store the tenant's conditions");
        }
    }

    pub(super) async fn record_observed_generation(&self, tenant: &TenantId, spec: &AgentSpec) {
        let noted = self.state.observe_generation(tenant, spec.generation).await;
        if let Err(error) = noted {
            tracing::warn!(%tenant, "the tenant's generation could not be stored: {error}");
        }
    }

    pub(super) async fn record_applied_revisions(&self, spec: &AgentSpec) {
        for (kind, revision) in &spec.revisions {
            let tenant = &spec.launch.tenant;
            if let Err(error) = self.state.mark_applied(tenant, *kind, *revision).await {
                tracing::warn!(%tenant, %error, "failed to store the applied document revisions");
            }
        }
    }

    /// Stops an agent in any phase, and returns when it is stopped.
    pub(super) async fn stop_agent(
        self: &Arc<Self>,
        tenant: &TenantId,
        down: SlotPhase,
        grace: Duration,
    ) {
        loop {
            let descent = self.with_slot(tenant, |slot| match slot.phase() {
                SlotPhase::Starting | SlotPhase::Stopping => StopStep::Wait(slot.subscribe()),
                // A guard taken since then keeps it running.
                SlotPhase::Running if down == SlotPhase::Asleep && !slot.should_stop() => {
                    StopStep::Done
                }
                SlotPhase::Running => {
                    slot.set_phase(SlotPhase::Stopping);
                    StopStep::Stop
                }
                SlotPhase::Asleep => {
                    slot.set_phase(down);
                    StopStep::Done
                }
                SlotPhase::Stopped | SlotPhase::Failed => StopStep::Done,
            });
            match descent {
                StopStep::Wait(phase) => wait_until_settled(phase).await,
                StopStep::Stop => break,
                StopStep::Done => return,
            }
        }
        let agents = Arc::clone(self);
        let stopped = tenant.clone();
        // Not the caller's task: a caller that goes away must not leave an agent half stopped.
        let stop = self.tasks.spawn(async move {
            agents.runtime.stop(&stopped, grace).await;
            agents.bots.release_all(&stopped);
            tracing::info!(tenant = %stopped, "agent stopped");
            agents.with_slot(&stopped, |slot| slot.set_phase(down));
        });
        let _ = stop.await;
    }
}

fn confinement_condition(confinement: &Confinement, now: Time) -> Condition {
    Condition {
        kind: confinement.means.to_owned(),
        status: if confinement.in_force {
            ConditionStatus::True
        } else {
            ConditionStatus::False
        },
        reason: confinement.reason.clone(),
        message: String::new(),
        last_transition_time: now,
    }
}
