//! What the `deliver` of a cron job means: which chats, and whether they can be reached.

use hermes_config::{GatewaySettings, Home, Platform};
use serde_json::Value;

use crate::send::{SendError, check_target};

/// Why the messages of a job cannot be delivered.
#[derive(Debug, thiserror::Error)]
pub enum DeliveryRefusal {
    #[error("`{target}` cannot be delivered to: {reason}")]
    Target { target: String, reason: SendError },
    #[error("`all` has no target: no platform with a token has a home channel")]
    NoHomeChannel,
}

/// Checks that every target of `deliver` can be resolved: the words of jobs (`local`, `origin`, `all`), platforms and
/// chats, with commas. `origin` is the chat that the job was created in.
pub fn check_delivery(
    home: &Home,
    gateway: &GatewaySettings,
    deliver: &str,
    origin: Option<&Value>,
) -> Result<(), DeliveryRefusal> {
    let words = deliver.split(',').map(str::trim);
    if words.clone().any(|word| word == "all") && home_channels(gateway).is_empty() {
        return Err(DeliveryRefusal::NoHomeChannel);
    }
    for target in expand_targets(deliver, origin, gateway) {
        check_target(home, gateway, &target)
            .map_err(|reason| DeliveryRefusal::Target { target, reason })?;
    }
    Ok(())
}

/// The targets that `deliver` names, without duplicates and without the home itself.
pub(crate) fn expand_targets(
    deliver: &str,
    origin: Option<&Value>,
    gateway: &GatewaySettings,
) -> Vec<String> {
    let mut targets = Vec::new();
    for word in deliver.split(',').map(str::trim) {
        let meant = match word {
            "" | "local" => Vec::new(),
            "origin" => origin_target(origin)
                .or_else(|| home_channels(gateway).into_iter().next())
                .into_iter()
                .collect(),
            "all" => home_channels(gateway),
            platform => match origin_target(origin) {
                // The job was created in a chat of that platform, so it is delivered there.
                Some(origin) if origin.split(':').next() == Some(platform) => vec![origin],
                _ => vec![platform.to_owned()],
            },
        };
        for target in meant {
            if !targets.contains(&target) {
                targets.push(target);
            }
        }
    }
    targets
}

/// The chat that a job was created in.
fn origin_target(origin: Option<&Value>) -> Option<String> {
    let origin = origin?;
    let text = |key: &str| match origin.get(key)? {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    // `telegram`, or `telegram@work` for a further bot.
    let label = text("platform")?;
    Platform::from_name(label.split('@').next().unwrap_or_default())?;
    let mut target = format!("{label}:{}", text("chat_id")?);
    if let Some(thread) = text("thread_id") {
        target = format!("{target}:{thread}");
    }
    Some(target)
}

/// The bots that have a home channel.
fn home_channels(gateway: &GatewaySettings) -> Vec<String> {
    let bots = Platform::ALL.into_iter().flat_map(|platform| {
        let with_home = gateway
            .accounts(platform)
            .filter(|(_, settings)| settings.home_channel.is_some());
        with_home.map(move |(account, _)| match account {
            "" => platform.name().to_owned(),
            account => format!("{}@{account}", platform.name()),
        })
    });
    bots.collect()
}

#[cfg(test)]
mod tests {
    use hermes_config::{Settings, Variables};
    use serde_json::json;

    use super::*;

    const TWO_HOMES: &str = "
telegram: {token: t, home_channel: '1'}
slack: {token: s, home_channel: C1}
discord: {token: d, accounts: {work: {token: w}}}
";

    #[test]
    fn a_target_that_cannot_be_resolved_is_refused_with_the_reason() {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::at(directory.path());
        let settings = Settings::parse(TWO_HOMES, Variables::default()).unwrap();
        let check = |deliver: &str| {
            let checked = check_delivery(&home, &settings.gateway, deliver, None);
            checked.map_err(|refusal| refusal.to_string())
        };
        for deliver in [
            "",
            "local",
            "origin",
            "all",
            "telegram",
            "slack:C12345678, local",
            "discord@work:42",
        ] {
            assert_eq!(check(deliver), Ok(()), "{deliver}");
        }
        for (deliver, reason) in [
            (
                "telegram, discord",
                "`discord` cannot be delivered to: No home channel",
            ),
            ("slack:nobody", "Could not resolve 'nobody'"),
            ("discord@home:42", "'discord@home' is not configured"),
            ("signal:1", "'signal' is not configured"),
            ("nonsense", "Unknown platform: nonsense"),
        ] {
            let said = check(deliver).unwrap_err();
            assert!(said.contains(reason), "{deliver}: {said}");
        }
        let none = Settings::parse("", Variables::default()).unwrap();
        assert!(check_delivery(&home, &none.gateway, "all", None).is_err());
        let origin = json!({"platform": "discord", "chat_id": "42"});
        let checked = check_delivery(&home, &settings.gateway, "discord", Some(&origin));
        assert!(checked.is_ok(), "the chat it was created in is its target");
        let origin = json!({"platform": "discord@work", "chat_id": "42"});
        assert_eq!(
            expand_targets("origin", Some(&origin), &settings.gateway),
            ["discord@work:42"]
        );
    }
}
