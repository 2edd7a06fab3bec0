//! Delivers the messages of cron jobs to their chats.

use futures::future::BoxFuture;
use hermes_agent::{conversation::Agent, cron::Delivery, policy::EgressDenied};
use hermes_config::{GatewaySettings, Platform};
use hermes_protocol::Feature;
use hermes_store::cron::Job;
use serde_json::Value;

use crate::send::{MediaPolicy, MessageSender};

pub struct PlatformDelivery {
    agent: Agent,
}

impl PlatformDelivery {
    /// Uses the agent's current settings at delivery.
    pub fn new(agent: Agent) -> Self {
        Self { agent }
    }

    async fn deliver_to_targets(&self, job: &Job, text: &str) -> Result<(), String> {
        let settings = self.agent.settings();
        let targets = job_targets(job, &settings.gateway);
        if targets.is_empty() {
            return Ok(());
        }
        if !self.agent.policy().has_feature(Feature::Messaging) {
            return Err(
                "the operator's policy does not allow messages; the message is stored in the home"
                    .into(),
            );
        }
        let sender = MessageSender::new(self.agent.home(), &settings);
        let mut failures = Vec::new();
        for target in targets {
            if let Err(reason) = self.check_egress(&target, &settings.gateway) {
                failures.push(format!("`{target}`: {reason}"));
                continue;
            }
            if let Err(error) = sender.send(&target, text, MediaPolicy::Upload).await {
                failures.push(format!("`{target}`: {error}"));
            }
        }
        if failures.is_empty() {
            return Ok(());
        }
        Err(format!("not delivered to {}", failures.join("; ")))
    }
}

impl PlatformDelivery {
    /// Checks the operator's policy for the platform of a target.
    fn check_egress(&self, target: &str, gateway: &GatewaySettings) -> Result<(), EgressDenied> {
        let name = target.split(':').next().unwrap_or_default();
        match Platform::from_name(name) {
            Some(platform) => {
                let base = &gateway.platform(platform).base_url;
                self.agent.policy().egress().check_url(base)
            }
            None => Ok(()),
        }
    }
}

impl Delivery for PlatformDelivery {
    fn deliver<'a>(&'a self, job: &'a Job, text: &'a str) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(self.deliver_to_targets(job, text))
    }
}

/// The targets of a job, without duplicates and without the home itself.
fn job_targets(job: &Job, gateway: &GatewaySettings) -> Vec<String> {
    let written = job.get("deliver").and_then(Value::as_str);
    let mut targets = Vec::new();
    for word in written.unwrap_or("local").split(',').map(str::trim) {
        let meant = match word {
            "" | "local" => Vec::new(),
            "origin" => origin_target(job)
                .or_else(|| home_channels(gateway).into_iter().next())
                .into_iter()
                .collect(),
            "all" => home_channels(gateway),
            platform => match origin_target(job) {
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
fn origin_target(job: &Job) -> Option<String> {
    let origin = job.get("origin")?;
    let text = |key: &str| match origin.get(key)? {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    let platform = Platform::from_name(&text("platform")?)?;
    let mut target = format!("{}:{}", platform.name(), text("chat_id")?);
    if let Some(thread) = text("thread_id") {
        target = format!("{target}:{thread}");
    }
    Some(target)
}

/// The platforms that have a home channel.
fn home_channels(gateway: &GatewaySettings) -> Vec<String> {
    let has_home = |platform: &Platform| {
        let settings = gateway.platform(*platform);
        settings.token.is_some() && settings.home_channel.is_some()
    };
    let platforms = Platform::ALL.into_iter().filter(has_home);
    platforms
        .map(|platform| platform.name().to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use hermes_config::{Home, Settings, Variables};
    use hermes_store::cron::{CronFile, NewJob, Schedule};
    use jiff::Zoned;
    use serde_json::json;

    use super::*;

    fn meant(deliver: &str, origin: Option<Value>, yaml: &str) -> Vec<String> {
        let directory = tempfile::tempdir().unwrap();
        let now = Zoned::now();
        let new = NewJob {
            deliver: Some(deliver.into()),
            origin,
            ..NewJob::new("x", Schedule::parse("1h", &now).unwrap())
        };
        let home = Home::at(directory.path());
        let job = CronFile::change(&home, &now, |file| file.create(new, &now)).unwrap();
        let settings = Settings::parse(yaml, Variables::default()).unwrap();
        job_targets(&job, &settings.gateway)
    }

    const TWO_HOMES: &str = "
telegram: {token: t, home_channel: '1'}
slack: {token: s, home_channel: C1}
discord: {token: d}
";

    #[test]
    fn local_messages_stay() {
        assert!(meant("local", None, TWO_HOMES).is_empty());
        assert!(meant("origin", None, "").is_empty());
    }

    #[test]
    fn the_origin_is_a_chat_or_else_the_first_home() {
        let origin = json!({"platform": "telegram", "chat_id": 7, "thread_id": "9"});
        assert_eq!(
            meant("origin", Some(origin.clone()), TWO_HOMES),
            ["telegram:7:9"]
        );
        assert_eq!(
            meant("telegram", Some(origin.clone()), TWO_HOMES),
            ["telegram:7:9"]
        );
        assert_eq!(meant("slack", Some(origin), TWO_HOMES), ["slack"]);
        assert_eq!(meant("origin", None, TWO_HOMES), ["telegram"]);
    }

    #[test]
    fn every_place_is_named_once() {
        assert_eq!(
            meant("all, telegram,slack:C2,local", None, TWO_HOMES),
            ["telegram", "slack", "slack:C2"]
        );
    }
}
