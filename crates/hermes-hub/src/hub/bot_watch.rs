//! Bots of tenants that hear nothing. Only agents know; those that run are asked, with their logins. What they say becomes
//! a condition of the tenant.

use std::time::Duration;

use super::Hub;
use crate::{
    Problem, TenantId,
    api_types::{Condition, ConditionStatus, Time},
    storage::state::TenantObservation,
    tenants::runtime::BotHealth,
};

/// Timeout of asking one agent.
const TIMEOUT: Duration = Duration::from_secs(5);
const BOT_CONDITION: &str = "PlatformsConnected";
/// States that do not pass by themselves.
const BROKEN_STATES: [&str; 2] = ["deaf", "fatal"];
const MAX_NAMED: usize = 20;

impl Hub {
    /// Asks a running agent which of its bots hear nothing, and stores that.
    pub async fn check_bots(&self, tenant: &TenantId) -> Result<(), Problem> {
        let asked = self.agents().runtime().bots(tenant);
        // An agent that cannot answer now is asked again.
        let Ok(Ok(bots)) = tokio::time::timeout(TIMEOUT, asked).await else {
            return Ok(());
        };
        let broken = broken_bots(&bots);
        let condition = bot_condition(&broken);
        let Some(record) = self.tenant(tenant).await? else {
            return Ok(());
        };
        let known = record
            .conditions
            .iter()
            .find(|known| known.kind == BOT_CONDITION);
        let is_same = match known {
            Some(known) => known.status == condition.status && known.message == condition.message,
            // A tenant whose bots always worked has no such condition.
            None => broken.is_empty(),
        };
        if is_same {
            return Ok(());
        }
        let observation = TenantObservation {
            conditions: vec![condition],
            ..TenantObservation::default()
        };
        self.state().observe_tenant(tenant, observation).await?;
        Ok(())
    }
}

/// Bots that need somebody, by name.
fn broken_bots(bots: &[BotHealth]) -> Vec<String> {
    let broken = bots
        .iter()
        .filter(|bot| BROKEN_STATES.contains(&bot.state.as_str()));
    let mut named: Vec<String> = broken
        .map(|bot| {
            let label: String = bot.label.chars().take(64).collect();
            format!("`{label}` ({})", bot.state)
        })
        .collect();
    named.sort_unstable();
    named
}

fn bot_condition(broken: &[String]) -> Condition {
    let (status, reason, message) = if broken.is_empty() {
        (ConditionStatus::True, "connected".into(), String::new())
    } else {
        let named = &broken[..broken.len().min(MAX_NAMED)];
        let message = format!(
            "these bots hear nothing: {}; check their tokens and restart the agent",
            named.join(", ")
        );
        (
            ConditionStatus::False,
            format!("{} deaf", broken.len()),
            message,
        )
    };
    Condition {
        kind: BOT_CONDITION.into(),
        status,
        reason,
        message,
        last_transition_time: Time::now(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bot_that_hears_nothing_is_named_and_one_that_connects_again_is_not() {
        let bots = [
            ("telegram@work", "fatal"),
            ("slack", "reconnecting"),
            ("telegram", "connected"),
            ("discord", "deaf"),
        ];
        let bots = bots.map(|(label, state)| BotHealth {
            label: label.into(),
            state: state.into(),
            last_ok_at: None,
        });
        let broken = broken_bots(&bots);
        assert_eq!(broken, ["`discord` (deaf)", "`telegram@work` (fatal)"]);
        let condition = bot_condition(&broken);
        assert_eq!(condition.status, ConditionStatus::False);
        assert!(condition.message.contains("`discord` (deaf)"));
        assert_eq!(bot_condition(&[]).status, ConditionStatus::True);
    }
}
