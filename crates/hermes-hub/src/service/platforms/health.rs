//! How the bots of a tenant are.

use std::time::Duration;

use hermes_config::{Platform, Settings};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::{
    Problem,
    service::call::Call,
    storage::files::{HomeDirectory, run_blocking},
    tenants::{lookup::read_home_settings, runtime::BotHealth},
};

/// Timeout of asking the agent.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Written by the agent's gateway.
const STATE_FILE: &str = "gateway_state.json";
const MAX_ERROR_CHARS: usize = 300;

/// A bot.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BotReport {
    /// `telegram`, or `telegram@work` for a further account.
    label: String,
    /// `connected`, `reconnecting`, `deaf`, `fatal` and so on.
    state: String,
    /// When it heard something last.
    last_ok_at: Option<String>,
    /// Why it is not connected.
    error: Option<String>,
    /// Telegram: the name by which people find it, without `@`.
    name: Option<String>,
}

/// The settings that the tenant's agent works with.
pub(super) async fn read_settings(call: &Call) -> Result<Settings, Problem> {
    let spec = call.hub.agents().tenant_lookup();
    let spec = spec.agent_spec(call.tenant_id()?).await?;
    let pairs: Vec<(String, String)> = spec
        .launch
        .env
        .iter()
        .map(|(name, value)| (name.clone(), value.expose().clone()))
        .collect();
    let home = call.hub.home(call.tenant()?);
    run_blocking(move || {
        if !home.path().is_dir() {
            let message = "the tenant has no home yet; wait until it is `ready`";
            return Err(Problem::precondition(message));
        }
        read_home_settings(&home, pairs).ok_or_else(|| {
            Problem::precondition(
                "the tenant's `config.yaml` is damaged or too large; fix the file first",
            )
            .with_reason("config_damaged")
        })
    })
    .await
}

/// All bots of the agent, if it runs and answers.
pub(super) async fn ask_bots(call: &Call) -> Vec<BotReport> {
    let Ok(record) = call.tenant() else {
        return Vec::new();
    };
    if !call.hub.agents().is_awake(&record.id) {
        return Vec::new();
    }
    let asked = call.hub.agents().runtime().bots(&record.id);
    let Ok(Ok(bots)) = tokio::time::timeout(TIMEOUT, asked).await else {
        return Vec::new();
    };
    let home = call.hub.home(record);
    let read = run_blocking(move || {
        let directory =
            HomeDirectory::open_home(home.path()).map_err(|error| Problem::internal(&error))?;
        let text = directory.read_settings(STATE_FILE).ok().flatten();
        Ok(serde_json::from_str::<Value>(&text.unwrap_or_default()).unwrap_or_default())
    });
    let told = read.await.unwrap_or_default();
    bots.into_iter().map(|bot| report(bot, &told)).collect()
}

fn report(bot: BotHealth, told: &Value) -> BotReport {
    let told = &told["platforms"][&bot.label];
    let error = told["error_message"].as_str();
    let name = told["bot_name"].as_str().filter(|name| is_bot_name(name));
    BotReport {
        name: name.map(str::to_owned),
        error: error.map(|error| error.chars().take(MAX_ERROR_CHARS).collect()),
        label: bot.label,
        state: bot.state,
        last_ok_at: bot.last_ok_at,
    }
}

/// The file is the tenant's: a name becomes a part of an address.
fn is_bot_name(name: &str) -> bool {
    (3..=64).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

pub(super) fn bots_of(bots: &[BotReport], platform: Platform) -> Vec<BotReport> {
    let is_own = |bot: &&BotReport| bot.label.split('@').next() == Some(platform.name());
    bots.iter().filter(is_own).cloned().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_plain_name_of_a_bot_is_told() {
        let named = |name: &str| {
            let told = json!({"platforms": {"telegram": {"bot_name": name}}});
            let bot = BotHealth {
                label: "telegram".into(),
                state: "connected".into(),
                last_ok_at: None,
            };
            report(bot, &told).name
        };
        assert_eq!(named("hermes_bot").as_deref(), Some("hermes_bot"));
        for wrong in ["", "a", "x/../evil", "x?start=1", "x\" onclick", "bött"] {
            assert_eq!(named(wrong), None, "{wrong}");
        }
    }
}
