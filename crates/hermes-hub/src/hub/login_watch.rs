//! Logins that MCP servers of tenants wait for, and those that end soon. Only agents know; those that run are asked every
//! minute, and none is woken for it. What they say becomes a condition of the tenant, whose change is an event.

use std::time::Duration;

use futures::{StreamExt, stream};
use hermes_protocol::{AgentReply, AgentRequest, ServerState};
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
                    tracing::warn!(%tenant, %problem, "failed to store which bots receive no updates");
                }
            }
        });
        tokio::select! {
            () = hub.shutdown().cancelled() => return,
            () = asked => {}
        }
    }
}

/// The servers of a tenant whose login somebody should see to, each as it is named to people.
struct LoginNeeds {
    waiting: Vec<String>,
    ending: Vec<String>,
}

impl LoginNeeds {
    fn new(servers: Vec<ServerState>) -> Self {
        let mut needs = Self {
            waiting: Vec::new(),
            ending: Vec::new(),
        };
        for server in servers {
            let name = format!("`{}`", server.name.chars().take(64).collect::<String>());
            if server.status == NEEDS_LOGIN {
                needs.waiting.push(name);
            } else if let Some(end) = server.login_ends_at {
                let end = i64::try_from(end.saturating_mul(1000)).unwrap_or(i64::MAX);
                let end = Time::from_millis(end);
                needs.ending.push(format!("{name} at {end}"));
            }
        }
        needs.waiting.sort_unstable();
        needs.ending.sort_unstable();
        needs
    }

    /// A reason and a message, if there is something to do.
    fn describe(&self) -> Option<(String, String)> {
        let join = |names: &[String]| names[..names.len().min(MAX_NAMED)].join(", ");
        match (self.waiting.len(), self.ending.len()) {
            (0, 0) => None,
            (0, ending) => Some((
                format!("{ending} ending"),
                format!(
                    "logins to MCP servers end soon, log in again: {}",
                    join(&self.ending)
                ),
            )),
            (waiting, _) => Some((
                format!("{waiting} waiting"),
                format!("log in to the MCP servers {}", join(&self.waiting)),
            )),
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
        self.record_logins(tenant, &LoginNeeds::new(servers)).await
    }

    async fn record_logins(&self, tenant: &TenantId, needs: &LoginNeeds) -> Result<(), Problem> {
        let Some(record) = self.tenant(tenant).await? else {
            return Ok(());
        };
        let known = record
            .conditions
            .iter()
            .find(|condition| condition.kind == LOGIN_CONDITION);
        let described = needs.describe();
        // A tenant that never needed a login has no such condition.
        if described.is_none() && known.is_none() {
            return Ok(());
        }
        let (status, reason, message) = match described {
            None => (ConditionStatus::True, "logged_in".into(), String::new()),
            Some((reason, message)) => (ConditionStatus::False, reason, message),
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
