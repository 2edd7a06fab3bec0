//! Starting and stopping an agent, once for any number of concurrent callers.

use std::{sync::Arc, time::Instant};

use super::{Agents, PATIENCE, Phase, Terms, Waking, failing, settled};
use crate::{
    Code, Problem, TenantId,
    runtime::{Confinement, Death, RuntimeError},
    shapes::{AccessStatus, Condition, ConditionStatus, Time},
    state::Observation,
};

/// What a caller that needs an agent has to do next.
enum Step {
    /// It should be running.
    Look,
    /// Another caller is starting or stopping it.
    Wait(tokio::sync::watch::Receiver<Phase>),
    Rest(std::time::Duration),
    /// This caller starts it.
    Begin,
    GiveUp(String),
}

enum NotUp {
    /// The previous process had exited by itself.
    Died(Death),
    Failed(String),
}

/// What a caller that wants an agent stopped has to do next.
enum Descent {
    /// It is starting or stopping.
    Wait(tokio::sync::watch::Receiver<Phase>),
    /// It is running, and this caller stops it.
    Mine,
    /// It is stopped, or has to keep running.
    Done,
}

impl Agents {
    /// See [`Agents::wake`]. An explicit start also wakes agents that are not started on demand.
    pub(super) async fn wake_as(
        self: &Arc<Self>,
        tenant: &TenantId,
        waking: Waking,
    ) -> Result<Arc<Terms>, Problem> {
        loop {
            if self.closing.is_cancelled() {
                return Err(Problem::new(Code::Unavailable, "the Hub is shutting down"));
            }
            match self.next_step(tenant) {
                Step::Look => {
                    self.look(tenant).await;
                    let terms = self.seat(tenant, |seat| {
                        seat.terms.clone().filter(|_| seat.phase() == Phase::Up)
                    });
                    if let Some(terms) = terms {
                        return Ok(terms);
                    }
                }
                Step::Wait(phase) => settled(phase).await,
                Step::Rest(rest) => tokio::select! {
                    () = tokio::time::sleep(rest) => {}
                    () = self.closing.cancelled() => {}
                },
                Step::Begin => {
                    if waking == Waking::Demand {
                        self.refuse_demand(tenant).await?;
                    }
                    let is_mine = self.seat(tenant, |seat| {
                        let is_down = matches!(seat.phase(), Phase::Asleep | Phase::Stopped);
                        if is_down {
                            seat.turn_to(Phase::Starting);
                        }
                        is_down
                    });
                    if is_mine {
                        self.begin_start(tenant);
                    }
                }
                Step::GiveUp(reason) => {
                    let message = format!(
                        "the tenant's agent failed too often: {reason}; remove the cause and start it"
                    );
                    return Err(Problem::new(Code::Unavailable, message).because("agent_failed"));
                }
            }
        }
    }

    fn next_step(&self, tenant: &TenantId) -> Step {
        self.seat(tenant, |seat| match seat.phase() {
            Phase::Up => Step::Look,
            Phase::Starting | Phase::Stopping => Step::Wait(seat.follow()),
            Phase::Failed => Step::GiveUp(seat.last_error().to_owned()),
            Phase::Asleep | Phase::Stopped => match seat.rest() {
                rest if rest.is_zero() => Step::Begin,
                rest => Step::Rest(rest),
            },
        })
    }

    async fn refuse_demand(&self, tenant: &TenantId) -> Result<(), Problem> {
        let terms = self.tenancy.terms(tenant).await?;
        if terms.access == AccessStatus::Blocked {
            return Err(Problem::denied("the tenant is blocked").because("tenant_blocked"));
        }
        if terms.waking == Waking::Order {
            return Err(Problem::new(
                Code::Unavailable,
                "the tenant's agent does not start by itself; start it",
            )
            .because("agent_stopped"));
        }
        Ok(())
    }

    /// Starts an agent whose phase is already `Starting`. The task is not owned by the caller, so a caller that stops
    /// waiting does not cancel the start.
    pub(super) fn begin_start(self: &Arc<Self>, tenant: &TenantId) {
        let agents = Arc::clone(self);
        let tenant = tenant.clone();
        self.tasks.spawn(async move {
            let began = Instant::now();
            match agents.bring_up(&tenant).await {
                Ok(terms) => {
                    agents.metrics.took("wake_seconds", began.elapsed());
                    agents.hand_over_news(&tenant, &terms).await;
                    agents.seat(&tenant, |seat| seat.come_up(&terms));
                    let milliseconds = began.elapsed().as_secs_f64() * 1000.0;
                    tracing::info!(%tenant, milliseconds, "agent started");
                    agents.catch_up(&tenant, &terms).await;
                }
                Err(NotUp::Died(death)) => {
                    agents.seat(&tenant, |seat| seat.die(death.clone()));
                    agents.note_death(&tenant, &death).await;
                }
                Err(NotUp::Failed(reason)) => {
                    agents.seat(&tenant, |seat| seat.fail(reason.clone()));
                    agents.note_failed_start(&tenant, &reason).await;
                }
            }
        });
    }

    async fn bring_up(&self, tenant: &TenantId) -> Result<Arc<Terms>, NotUp> {
        let terms = self.tenancy.terms(tenant).await;
        let terms = Arc::new(terms.map_err(|problem| NotUp::Failed(problem.message))?);
        let started = self.runtime.start(terms.launch.clone()).await;
        let confinement = started.map_err(|error| match error {
            RuntimeError::Died(death) => NotUp::Died(death),
            error => NotUp::Failed(error.to_string()),
        })?;
        self.note_conditions(tenant, &terms, &confinement).await;
        self.note_ignored(tenant, &terms).await;
        self.note_applied(&terms).await;
        Ok(terms)
    }

    /// Has an agent that has just started reload what changed in its home during the start.
    async fn hand_over_news(&self, tenant: &TenantId, terms: &Terms) {
        while self.seat(tenant, |seat| std::mem::take(&mut seat.has_news)) {
            let directives = &terms.launch.directives;
            if let Err(error) = self.runtime.apply(tenant, directives).await {
                tracing::warn!(%tenant, %error, "failed to reload settings in a starting agent");
                return;
            }
        }
    }

    /// Applies what changed during the start: changes are pushed to running agents only.
    async fn catch_up(&self, tenant: &TenantId, known: &Terms) {
        let is_behind = |terms: &Terms| {
            terms.revisions != known.revisions || terms.generation != known.generation
        };
        let caught_up = match self.tenancy.terms(tenant).await {
            Ok(terms) if is_behind(&terms) => self.apply(tenant).await,
            Ok(_) => Ok(()),
            Err(problem) => Err(problem),
        };
        if let Err(problem) = caught_up {
            tracing::warn!(%tenant, %problem, "failed to apply settings that changed during the start");
            self.seat(tenant, |seat| seat.is_stale = true);
        }
    }

    /// Stores the confinement as conditions, if it has changed.
    async fn note_conditions(&self, tenant: &TenantId, terms: &Terms, found: &[Confinement]) {
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
            .map(|confinement| condition(confinement, now))
            .filter(is_new)
            .chain(failing::recovery(&record.conditions))
            .collect();
        let is_observed = record.observed_generation >= terms.generation;
        if conditions.is_empty() && is_observed {
            return;
        }
        let observation = Observation {
            conditions,
            observed_generation: Some(terms.generation),
            ..Observation::default()
        };
        if let Err(error) = self.state.observe_tenant(tenant, observation).await {
            tracing::warn!(%tenant, %error, "failed to store the tenant's conditions");
        }
    }

    pub(super) async fn note_observed(&self, tenant: &TenantId, terms: &Terms) {
        let noted = self
            .state
            .observe_generation(tenant, terms.generation)
            .await;
        if let Err(error) = noted {
            tracing::warn!(%tenant, "the tenant's generation could not be stored: {error}");
        }
    }

    pub(super) async fn note_applied(&self, terms: &Terms) {
        for (kind, revision) in &terms.revisions {
            let tenant = &terms.launch.tenant;
            if let Err(error) = self.state.mark_applied(tenant, *kind, *revision).await {
                tracing::warn!(%tenant, %error, "failed to store the applied document revisions");
            }
        }
    }

    /// Stops an agent in any phase, and returns when it is stopped.
    pub(super) async fn put_down(self: &Arc<Self>, tenant: &TenantId, down: Phase) {
        loop {
            let descent = self.seat(tenant, |seat| match seat.phase() {
                Phase::Starting | Phase::Stopping => Descent::Wait(seat.follow()),
                // A guard taken since then keeps it running.
                Phase::Up if down == Phase::Asleep && !seat.is_tired() => Descent::Done,
                Phase::Up => {
                    seat.turn_to(Phase::Stopping);
                    Descent::Mine
                }
                Phase::Asleep => {
                    seat.turn_to(down);
                    Descent::Done
                }
                Phase::Stopped | Phase::Failed => Descent::Done,
            });
            match descent {
                Descent::Wait(phase) => settled(phase).await,
                Descent::Mine => break,
                Descent::Done => return,
            }
        }
        let agents = Arc::clone(self);
        let stopped = tenant.clone();
        // Not the caller's task: a caller that goes away must not leave an agent half stopped.
        let stop = self.tasks.spawn(async move {
            agents.runtime.stop(&stopped, PATIENCE).await;
            tracing::info!(tenant = %stopped, "agent stopped");
            agents.seat(&stopped, |seat| seat.turn_to(down));
        });
        let _ = stop.await;
    }
}

fn condition(confinement: &Confinement, now: Time) -> Condition {
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
