//! Logins that MCP servers of tenants wait for. Only agents know; those that run are asked every minute, and none is woken
//! for it. What they say becomes a condition of the tenant, whose change is an event.

use std::time::Duration;

use futures::{StreamExt, stream};
use hermes_protocol::{AgentReply, AgentRequest};
use tokio::time::{MissedTickBehavior, interval};

use super::Hub;
use crate::{
    Problem, TenantId,
    api_types::{Condition, ConditionStatus, Time},
    storage::state::TenantObservation,
};

const INTERVAL: Duration = Duration::from_mins(1);
/// Timeout of asking one agent.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Agents that are asked at the same time.
const PARALLEL: usize = 16;
const LOGIN_CONDITION: &str = "LoginsValid";
const NEEDS_LOGIN: &str = "needs_auth";
const MAX_NAMED: usize = 20;

/// Asks running agents until the Hub stops.
pub(super) async fn watch_logins(hub: Hub) {
    let mut minutes = interval(INTERVAL);
    minutes.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = hub.shutdown().cancelled() => return,
            _ = minutes.tick() => {}
        }
        let asked = stream::iter(hub.agents().awake()).for_each_concurrent(PARALLEL, |tenant| {
            let hub = hub.clone();
            async move {
                if let Err(problem) = hub.check_logins(&tenant).await {
                    tracing::warn!(%tenant, %problem, "failed to store which logins are needed");
                }
                if let Err(problem) = hub.check_bots(&tenant).await {
                    tracing::warn!(%tenant, %problem, "failed to store which bots hear nothing");
                }
            }
        });
        tokio::select! {
            () = hub.shutdown().cancelled() => return,
            () = asked => {}
        }
    }
}

impl Hub {
    /// Asks a running agent which of its MCP servers wait for a login, and stores that.
    pub async fn check_logins(&self, tenant: &TenantId) -> Result<(), Problem> {
        let request = AgentRequest::ListServers;
        let asked = self
            .agents()
            .runtime()
            .send_request(tenant, &request, TIMEOUT);
        // An agent that cannot answer now is asked again.
        let Ok(Ok(AgentReply::Servers(servers))) = tokio::time::timeout(TIMEOUT, asked).await
        else {
            return Ok(());
        };
        let mut waiting: Vec<String> = servers
            .into_iter()
            .filter(|server| server.status == NEEDS_LOGIN)
            .map(|server| server.name)
            .collect();
        waiting.sort_unstable();
        self.record_logins(tenant, &waiting).await
    }

    async fn record_logins(&self, tenant: &TenantId, waiting: &[String]) -> Result<(), Problem> {
        let Some(record) = self.tenant(tenant).await? else {
            return Ok(());
        };
        let known = record
            .conditions
            .iter()
            .find(|condition| condition.kind == LOGIN_CONDITION);
        // A tenant that never needed a login has no such condition.
        if waiting.is_empty() && known.is_none() {
            return Ok(());
        }
        let (status, reason, message) = if waiting.is_empty() {
            (ConditionStatus::True, "logged_in".into(), String::new())
        } else {
            let names: Vec<_> = waiting
                .iter()
                .take(MAX_NAMED)
                .map(|name| format!("`{}`", name.chars().take(64).collect::<String>()))
                .collect();
            let reason = format!("{} waiting", waiting.len());
            let message = format!("log in to the MCP servers {}", names.join(", "));
            (ConditionStatus::False, reason, message)
        };
        if known.is_some_and(|known| known.status == status && known.message == message) {
            return Ok(());
        }
        let condition = Condition {
            kind: LOGIN_CONDITION.into(),
            status,
            reason,
            message,
            last_transition_time: Time::now(),
        };
        let observation = TenantObservation {
            conditions: vec![condition],
            ..TenantObservation::default()
        };
        self.state().observe_tenant(tenant, observation).await?;
        Ok(())
    }
}
