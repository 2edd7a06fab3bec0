//! What is left of an agent that failed: a line in the log, a condition, an entry in the audit log and a figure.

use super::Agents;
use crate::{
    TenantId,
    audit::NewEntry,
    runtime::Death,
    shapes::{Condition, ConditionStatus, Time},
    state::Observation,
};

/// The condition that tells whether a tenant's agent is well. One that never failed has none.
const CONDITION: &str = "AgentHealthy";
/// Under which the end of an agent is written down.
const ENDED: &str = "agent_ended";

impl Agents {
    /// Leaves the cause of an agent's end wherever somebody may look for it.
    pub(super) async fn note_death(&self, tenant: &TenantId, death: &Death) {
        tracing::warn!(%tenant, cause = death.cause.label(), "a tenant's agent {death}");
        let label = format!("cause=\"{}\"", death.cause.word());
        self.metrics.count("agent_deaths_total", label, 1);
        let message = format!("the tenant's agent {death}");
        self.note_unwell(tenant, death.cause.word(), message).await;
        let entry = NewEntry::by_hub(ENDED)
            .of(tenant)
            .to(death.cause.label())
            .with_status(500);
        if let Err(error) = self.state.append_audit(vec![entry]).await {
            tracing::warn!(%tenant, "the end of an agent could not be written down: {error}");
        }
    }

    /// The same for one that did not start.
    pub(super) async fn note_failed_start(&self, tenant: &TenantId, reason: &str) {
        self.metrics.count("failed_starts_total", "", 1);
        tracing::warn!(%tenant, "a tenant's agent does not start: {reason}");
        self.note_unwell(tenant, "no_start", reason.to_owned())
            .await;
    }

    async fn note_unwell(&self, tenant: &TenantId, reason: &str, message: String) {
        let condition = Condition {
            kind: CONDITION.into(),
            status: ConditionStatus::False,
            reason: reason.into(),
            message,
            last_transition_time: Time::now(),
        };
        let observation = Observation {
            conditions: vec![condition],
            ..Observation::default()
        };
        if let Err(error) = self.state.observe_tenant(tenant, observation).await {
            tracing::warn!(%tenant, "the tenant's condition could not be written down: {error}");
        }
    }
}

/// That an agent is well again, if it is known not to have been. What was wrong with it stays readable.
pub(super) fn recovery(known: &[Condition]) -> Option<Condition> {
    let known = known.iter().find(|known| known.kind == CONDITION)?;
    (known.status == ConditionStatus::False).then(|| Condition {
        kind: CONDITION.into(),
        status: ConditionStatus::True,
        reason: "started".into(),
        message: format!("started again; before, {}", known.message),
        last_transition_time: Time::now(),
    })
}
