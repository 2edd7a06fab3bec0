//! Variables of a tenant that its agent is started without, shown as a condition.

use super::{AgentSpec, Agents};
use crate::{
    TenantId,
    api_types::{Condition, ConditionStatus, Time},
    storage::state::TenantObservation,
};

const VARIABLES_CONDITION: &str = "VariablesInForce";

impl Agents {
    /// Records which variables an agent is started without, or that none are ignored any more.
    pub(super) async fn record_ignored_variables(&self, tenant: &TenantId, spec: &AgentSpec) {
        let Ok(Some(record)) = self.state.tenant(tenant).await else {
            return;
        };
        let known = record
            .conditions
            .iter()
            .find(|known| known.kind == VARIABLES_CONDITION);
        let wanted = variables_condition(&spec.ignored_variables);
        let is_told = match known {
            Some(known) => known.status == wanted.status && known.message == wanted.message,
            None => spec.ignored_variables.is_empty(),
        };
        if is_told {
            return;
        }
        let observation = TenantObservation {
            conditions: vec![wanted],
            ..TenantObservation::default()
        };
        if let Err(error) = self.state.observe_tenant(tenant, observation).await {
            tracing::warn!(%tenant, %error, "failed to store the tenant's conditions");
        }
    }
}

fn variables_condition(ignored: &[String]) -> Condition {
    let names: Vec<String> = ignored.iter().map(|name| format!("`{name}`")).collect();
    let (status, reason, message) = if names.is_empty() {
        (ConditionStatus::True, "all", String::new())
    } else {
        let message = format!(
            "{} decide what code programs load and are left out; unset them (`hermes tenant env unset`)",
            names.join(", ")
        );
        (ConditionStatus::False, "reserved_names", message)
    };
    Condition {
        kind: VARIABLES_CONDITION.to_owned(),
        status,
        reason: reason.to_owned(),
        message,
        last_transition_time: Time::now(),
    }
}
