//! Recording failures of agents: log line, condition, audit entry and metric.

use super::Agents;
use crate::{
    TenantId,
    audit::NewEntry,
    runtime::Death,
    shapes::{Condition, ConditionStatus, Time},
    state::Observation,
};

/// The condition type for agent health. An agent that never failed has no such condition.
const CONDITION: &str = "AgentHealthy";
/// The audit action of an agent's exit.
const ENDED: &str = "agent_ended";

impl Agents {
    /// Records the cause of an agent's exit in log, metrics, audit log and conditions.
    pub(super) async fn note_death(&self, tenant: &TenantId, death: &Death) {
        tracing::warn!(%tenant, cause = death.cause.label(), "agent exited: it {death}");
        let label = format!("cause=\"{}\"", death.cause.word());
        self.metrics.count("agent_deaths_total", label, 1);
        let message = format!("the tenant's agent {death}");
        self.note_unwell(tenant, death.cause.word(), message).await;
        let entry = NewEntry::by_hub(ENDED)
            .of(tenant)
            .to(death.cause.label())
            .with_status(500);
        if let Err(error) = self.state.append_audit(vec![entry]).await {
            tracing::warn!(%tenant, %error, "failed to write the audit entry of an agent's exit");
        }
    }

    pub(super) async fn note_failed_start(&self, tenant: &TenantId, reason: &str) {
        self.metrics.count("failed_starts_total", "", 1);
        tracing::warn!(%tenant, %reason, "agent failed to start");
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
            tracing::warn!(%tenant, %error, "failed to store the tenant's condition");
        }
    }
}

/// The condition of an agent that is healthy again, if it was unhealthy. The message keeps the earlier failure.
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
