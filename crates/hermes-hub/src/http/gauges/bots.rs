//! The bots of tenants, as their agents say they are. What an agent says is not trusted: only known words become labels.

use std::{collections::BTreeMap, time::Duration};

use futures::{StreamExt as _, stream};
use jiff::Timestamp;

use super::Gauge;
use crate::{TenantId, hub::Hub, tenants::runtime::BotHealth};

/// Timeout of asking one agent. A scrape does not wait long.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Agents that are asked at the same time.
const PARALLEL: usize = 64;
/// Bots of one tenant that are counted.
const MAX_BOTS: usize = 64;

const PLATFORMS: [&str; 3] = ["telegram", "discord", "slack"];
const STATES: [&str; 7] = [
    "connecting",
    "connected",
    "reconnecting",
    "degraded",
    "deaf",
    "fatal",
    "stopped",
];

/// A tenant whose agent answered, and its bots.
pub(super) type TenantBots = (TenantId, Vec<BotHealth>);

impl Hub {
    pub(super) async fn ask_for_bots(&self) -> Vec<TenantBots> {
        let runtime = self.agents().runtime();
        let asked = self.agents().awake().into_iter().map(|tenant| async move {
            let bots = tokio::time::timeout(TIMEOUT, runtime.bots(&tenant)).await;
            let mut bots = bots.ok()?.ok()?;
            bots.retain(|bot| platform_of(bot).is_some());
            bots.truncate(MAX_BOTS);
            (!bots.is_empty()).then_some((tenant, bots))
        });
        let asked: Vec<_> = asked.collect();
        let answered = stream::iter(asked).buffer_unordered(PARALLEL);
        let mut answered: Vec<TenantBots> = answered.filter_map(std::future::ready).collect().await;
        answered.sort_by(|(one, _), (other, _)| one.cmp(other));
        answered
    }
}

/// The platform of a bot; `None` if it is not a messaging platform.
fn platform_of(bot: &BotHealth) -> Option<&'static str> {
    let name = bot.label.split('@').next()?;
    PLATFORMS.into_iter().find(|known| *known == name)
}

/// How many bots are in which state.
pub(super) fn count_bots(tenants: &[TenantBots]) -> Vec<Gauge> {
    let mut counts: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for bot in tenants.iter().flat_map(|(_, bots)| bots) {
        let state = STATES.into_iter().find(|known| *known == bot.state);
        if let Some(platform) = platform_of(bot) {
            *counts
                .entry((platform, state.unwrap_or("unknown")))
                .or_default() += 1;
        }
    }
    let counts = counts.into_iter().map(|((platform, state), count)| {
        let labels = format!("platform=\"{platform}\",state=\"{state}\"");
        ("bots", labels, count)
    });
    counts.collect()
}

/// When each bot heard something last.
pub(super) fn last_heard(tenants: &[TenantBots]) -> Vec<Gauge> {
    let mut gauges = Vec::new();
    for (tenant, bots) in tenants {
        for bot in bots {
            let heard = bot.last_ok_at.as_deref();
            let heard = heard.and_then(|time| time.parse::<Timestamp>().ok());
            let seconds = heard.and_then(|time| u64::try_from(time.as_second()).ok());
            if let (Some(seconds), true) = (seconds, is_plain(&bot.label)) {
                let labels = format!("tenant=\"{tenant}\",bot=\"{}\"", bot.label);
                gauges.push(("tenant_bot_last_ok_seconds", labels, seconds));
            }
        }
    }
    gauges
}

/// Whether a name may be a label's value as it is.
fn is_plain(name: &str) -> bool {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "@_-.".contains(letter);
    name.len() <= 64 && name.chars().all(is_letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bot(label: &str, state: &str, last_ok_at: Option<&str>) -> BotHealth {
        BotHealth {
            label: label.into(),
            state: state.into(),
            last_ok_at: last_ok_at.map(str::to_owned),
        }
    }

    #[test]
    fn bots_are_counted_by_platform_and_state() {
        let tenant = |name: &str| TenantId::parse(name).unwrap();
        let tenants = vec![
            (
                tenant("acme"),
                vec![
                    bot("telegram", "deaf", Some("1970-01-01T00:01:00Z")),
                    bot("telegram@work", "connected", Some("1970-01-01T00:02:00Z")),
                    bot("slack\"} 1\nevil", "x", Some("1970-01-01T00:02:00Z")),
                ],
            ),
            (tenant("beta"), vec![bot("telegram", "odd\" word", None)]),
        ];
        let shown: Vec<String> = count_bots(&tenants)
            .into_iter()
            .chain(last_heard(&tenants))
            .map(|(name, labels, value)| format!("{name}{{{labels}}} {value}"))
            .collect();
        assert_eq!(
            shown,
            [
                "bots{platform=\"telegram\",state=\"connected\"} 1",
                "bots{platform=\"telegram\",state=\"deaf\"} 1",
                "bots{platform=\"telegram\",state=\"unknown\"} 1",
                "tenant_bot_last_ok_seconds{tenant=\"acme\",bot=\"telegram\"} 60",
                "tenant_bot_last_ok_seconds{tenant=\"acme\",bot=\"telegram@work\"} 120",
            ]
        );
    }
}
