//! Recording failures of agents: log line, condition, audit entry and metric.

use super::Agents;
use crate::{
    TenantId,
    api_types::{Condition, ConditionStatus, Time},
    storage::{audit::NewAuditEntry, state::TenantObservation},
    tenants::runtime::AgentExit,
};

/// The condition type for agent health. An agent that never failed has no such condition.
const HEALTH_CONDITION: &str = "AgentHealthy";
/// The audit action of an agent's exit.
const EXIT_ACTION: &str = "agent_ended";

impl Agents {
    /// Records the cause of an agent's exit in log, metrics, audit log and conditions.
    pub(super) async fn record_exit(&self, tenant: &TenantId, exit: &AgentExit) {
        tracing::warn!(%tenant, cause = exit.cause.label(), "agent exited: it {exit}");
        let label = format!("cause=\"{}\"", exit.cause.as_str());
        self.metrics.increment("agent_deaths_total", label, 1);
        let message = format!("the tenant's agent {exit}");
        self.record_unhealthy(tenant, exit.cause.as_str(), message)
            .await;
        let entry = NewAuditEntry::by_hub(EXIT_ACTION)
            .for_tenant(tenant)
            .with_target(exit.cause.label())
            .with_status(500);
        if let Err(error) = self.state.append_audit(vec![entry]).await {
            tracing::warn!(%tenant, %error, "failed to write the audit entry of an agent's exit");
        }
    }

    pub(super) async fn record_failed_start(&self, tenant: &TenantId, reason: &str) {
        self.metrics.increment("failed_starts_total", "", 1);
        tracing::warn!(%tenant, %reason, "agent failed to start");
        self.record_unhealthy(tenant, "no_start", reason.to_owned())
            .await;
    }

    async fn record_unhealthy(&self, tenant: &TenantId, reason: &str, message: String) {
        let condition = Condition {
            kind: HEALTH_CONDITION.into(),
            status: ConditionStatus::False,
            reason: reason.into(),
            message,
            last_transition_time: Time::now(),
        };
        let observation = TenantObservation {
            conditions: vec![condition],
            ..TenantObservation::default()
        };
        if let Err(error) = self.state.observe_tenant(tenant, observation).await {
            tracing::warn!(%tenant, %error, "failed to store the tenant's conditions");
        }
    }
}

/// The condition of an agent that is healthy again, if it was unhealthy. The message keeps the earlier failure.
pub(super) fn recovered_condition(known: &[Condition]) -> Option<Condition> {
    let known = known.iter().find(|known| known.kind == HEALTH_CONDITION)?;
    (known.status == ConditionStatus::False).then(|| Condition {
        kind: HEALTH_CONDITION.into(),
        status: ConditionStatus::True,
        reason: "started".into(),
        message: format!("started again; before, {}", known.message),
        last_transition_time: Time::now(),
    })
}
