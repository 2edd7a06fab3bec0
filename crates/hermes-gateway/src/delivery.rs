//! Delivers the messages of cron jobs to their chats.

use futures::future::BoxFuture;
use hermes_agent::{conversation::Agent, cron::Delivery, policy::EgressDenied};
use hermes_config::{GatewaySettings, Platform};
use hermes_protocol::Feature;
use hermes_store::cron::{DeliveryRecord, Job};
use serde_json::Value;

use crate::{
    delivery_targets::expand_targets,
    send::{MediaPolicy, MessageSender},
};

pub struct PlatformDelivery {
    agent: Agent,
}

impl PlatformDelivery {
    /// Uses the agent's current settings at delivery.
    pub fn new(agent: Agent) -> Self {
        Self { agent }
    }

    async fn deliver_to_target(
        &self,
        sender: &MessageSender,
        target: &str,
        text: &str,
    ) -> Result<String, String> {
        let settings = self.agent.settings();
        if !self.agent.policy().has_feature(Feature::Messaging) {
            return Err(
                "the operator's policy does not allow messages; the message is stored in the home"
                    .into(),
            );
        }
        self.check_egress(target, &settings.gateway)
            .map_err(|reason| reason.to_string())?;
        let sent = sender.send(target, text, MediaPolicy::Upload).await;
        let sent = sent.map_err(|error| error.to_string())?;
        if sent.message_id.is_empty() {
            return Err("the platform gave the message no id".into());
        }
        Ok(sent.message_id)
    }
}

impl PlatformDelivery {
    /// Checks the operator's policy for the platform of a target.
    fn check_egress(&self, target: &str, gateway: &GatewaySettings) -> Result<(), EgressDenied> {
        let label = target.split(':').next().unwrap_or_default();
        let (name, account) = label.split_once('@').unwrap_or((label, ""));
        let settings =
            Platform::from_name(name).and_then(|platform| gateway.account(platform, account));
        match settings {
            Some(settings) => self.agent.policy().egress().check_url(&settings.base_url),
            None => Ok(()),
        }
    }
}

impl Delivery for PlatformDelivery {
    fn targets(&self, job: &Job) -> Vec<String> {
        job_targets(job, &self.agent.settings().gateway)
    }

    fn deliver<'a>(
        &'a self,
        targets: Vec<String>,
        text: &'a str,
    ) -> BoxFuture<'a, Vec<DeliveryRecord>> {
        Box::pin(async move {
            let sender = MessageSender::new(self.agent.home(), &self.agent.settings());
            let mut deliveries = Vec::with_capacity(targets.len());
            for target in targets {
                let delivered = self.deliver_to_target(&sender, &target, text).await;
                deliveries.push(match delivered {
                    Ok(message_id) => DeliveryRecord::delivered(target, message_id),
                    Err(error) => DeliveryRecord::failed(target, error),
                });
            }
            deliveries
        })
    }
}

/// The targets of a job, without duplicates and without the home itself.
fn job_targets(job: &Job, gateway: &GatewaySettings) -> Vec<String> {
    let written = job.get("deliver").and_then(Value::as_str);
    expand_targets(written.unwrap_or("local"), job.get("origin"), gateway)
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
