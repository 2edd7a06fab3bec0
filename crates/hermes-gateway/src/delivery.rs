//! Delivers the messages of cron jobs to their chats.
//!
//! Where a bot is live, its messages go through the outbox: in one order with its answers, until they are there, once.
//! What became of them is found out afterwards (`follow`). Other bots, and processes that are not a gateway, send at once.

mod direct;
mod follow;

use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::BoxFuture;
use hermes_agent::{conversation::Agent, cron::Delivery};
use hermes_config::{GatewaySettings, Platform, sync::RwLock};
use hermes_protocol::Feature;
use hermes_store::cron::{DeliveryRecord, DeliveryTarget, Job, RunMessage};
use serde_json::Value;

use crate::{
    delivery_targets::expand_targets,
    outbound::{Outbox, QueuedReply},
    platform::{Account, ChatAddress, ChatKind},
    send::{MediaPolicy, MessageSender, ResolvedTarget, resolve_target},
};

pub use self::direct::DirectDelivery;

/// Delivers for a gateway.
pub struct PlatformDelivery {
    agent: Agent,
    /// Of the live platforms, if there are some in this process.
    outbox: RwLock<Option<Outbox>>,
    /// Whether messages may be in the outbox of which it is not known what became of them.
    has_queued: AtomicBool,
}

/// A message for one target.
struct TargetMessage<'a> {
    target: &'a str,
    text: &'a str,
    is_mirrored: bool,
}

impl PlatformDelivery {
    /// Uses the agent's current settings at delivery.
    pub fn new(agent: Agent) -> Self {
        Self {
            agent,
            outbox: RwLock::default(),
            // An earlier process may have left some.
            has_queued: AtomicBool::new(true),
        }
    }

    /// Sends through this outbox from now on, where its bots are meant.
    pub fn set_outbox(&self, outbox: Outbox) {
        *self.outbox.write() = Some(outbox);
    }

    fn outbox(&self) -> Option<Outbox> {
        self.outbox.read().clone()
    }

    /// Whether a target's bot is live here.
    fn is_live(&self, target: &str) -> bool {
        let label = target.split(':').next().unwrap_or_default();
        let account = Account::from_label(&label.trim().to_lowercase());
        match (account, self.outbox()) {
            (Some(account), Some(outbox)) => outbox.clients().get(&account).is_some(),
            _ => false,
        }
    }

    /// Checks what the operator's policy says about a target.
    fn check_policy(&self, target: &str) -> Result<(), String> {
        if !self.agent.policy().has_feature(Feature::Messaging) {
            return Err(
                "the operator's policy does not allow messages; the message is stored in the home"
                    .into(),
            );
        }
        let settings = self.agent.settings();
        let Some(account) = settings.gateway.target_account(target) else {
            return Ok(());
        };
        let reached = self.agent.policy().egress().check_url(&account.base_url);
        reached.map_err(|reason| reason.to_string())
    }

    /// Sends a message now. Returns its id.
    async fn send_now(&self, message: &TargetMessage<'_>) -> Result<String, String> {
        self.check_policy(message.target)?;
        let settings = self.agent.settings();
        let sender = MessageSender::new(self.agent.home(), &settings);
        send_message(sender.with_policy(self.agent.policy_handle()), message).await
    }

    /// Puts a message into the outbox, under a key that makes it one message however often this is done.
    async fn queue(
        &self,
        outbox: &Outbox,
        dedupe_key: &str,
        message: &TargetMessage<'_>,
        sent_late: bool,
    ) -> Result<(), String> {
        self.check_policy(message.target)?;
        let settings = self.agent.settings();
        let found = resolve_target(self.agent.home(), &settings.gateway, message.target)
            .map_err(|error| error.to_string())?;
        let (account, chat) = to_address(found);
        let reply = QueuedReply {
            sent_late,
            ..QueuedReply::new(account, chat, message.text, dedupe_key)
        };
        self.has_queued.store(true, Ordering::Relaxed);
        let queued = outbox.queue_reply(reply).await;
        queued.map(drop).map_err(|error| error.to_string())
    }
}

/// Sends a message now. Returns its id.
async fn send_message(
    sender: MessageSender,
    message: &TargetMessage<'_>,
) -> Result<String, String> {
    let sender = if message.is_mirrored {
        sender
    } else {
        sender.without_mirror()
    };
    let sent = sender
        .without_broadcasts()
        .send(message.target, message.text, MediaPolicy::Upload)
        .await
        .map_err(|error| error.to_string())?;
    if sent.message_id.is_empty() {
        return Err("the platform gave the message no id".into());
    }
    Ok(sent.message_id)
}

/// What names the message of a run for one of its targets.
fn dedupe_key(execution: &str, position: i64) -> String {
    format!("cron:{execution}:{position}")
}

/// The bot and the chat that a target means, as answers there have them: so they share one order.
fn to_address(found: ResolvedTarget) -> (Account, ChatAddress) {
    let account = Account {
        platform: found.platform,
        name: found.account,
    };
    let is_direct = match found.platform {
        Platform::Telegram => found.chat_id.bytes().all(|byte| byte.is_ascii_digit()),
        Platform::Slack => found.chat_id.starts_with(['D', 'U', 'W']),
        Platform::Discord => false,
    };
    let kind = if is_direct {
        ChatKind::Dm
    } else {
        ChatKind::Group
    };
    let chat = match (found.platform, found.thread_id) {
        // A thread is a channel there.
        (Platform::Discord, Some(thread)) => ChatAddress {
            thread_id: Some(thread.clone()),
            parent_id: Some(found.chat_id),
            ..ChatAddress::new(thread, ChatKind::Thread)
        },
        (_, thread_id) => ChatAddress {
            thread_id,
            ..ChatAddress::new(found.chat_id, kind)
        },
    };
    (account, chat)
}

impl Delivery for PlatformDelivery {
    fn targets(&self, job: &Job) -> Vec<DeliveryTarget> {
        let targets = job_targets(job, &self.agent.settings().gateway);
        let targets = targets.into_iter().map(|target| DeliveryTarget {
            is_kept: self.is_live(&target),
            target,
        });
        targets.collect()
    }

    fn deliver<'a>(
        &'a self,
        execution: &'a str,
        message: &'a RunMessage,
    ) -> BoxFuture<'a, Vec<DeliveryRecord>> {
        Box::pin(async move {
            let outbox = self.outbox();
            let mut deliveries = Vec::with_capacity(message.targets.len());
            for (position, target) in (0_i64..).zip(&message.targets) {
                let single = TargetMessage {
                    target: &target.target,
                    text: &message.text,
                    is_mirrored: message.is_mirrored,
                };
                let name = target.target.clone();
                deliveries.push(match outbox.as_ref().filter(|_| target.is_kept) {
                    Some(outbox) => {
                        let key = dedupe_key(execution, position);
                        match self.queue(outbox, &key, &single, false).await {
                            Ok(()) => DeliveryRecord::pending(name),
                            Err(error) => DeliveryRecord::failed(name, error),
                        }
                    }
                    None => match self.send_now(&single).await {
                        Ok(message_id) => DeliveryRecord::delivered(name, message_id),
                        Err(error) => DeliveryRecord::failed(name, error),
                    },
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

    #[test]
    fn a_target_is_the_chat_that_answers_go_to() {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::at(directory.path());
        let settings = Settings::parse(TWO_HOMES, Variables::default()).unwrap();
        let address = |target: &str| {
            let found = resolve_target(&home, &settings.gateway, target).unwrap();
            to_address(found).1
        };
        let topic = address("telegram:-1005:9");
        assert_eq!(
            (topic.id.as_str(), topic.thread_id.as_deref()),
            ("-1005", Some("9"))
        );
        assert_eq!(topic.kind, ChatKind::Group);
        assert_eq!(address("telegram:7").kind, ChatKind::Dm);
        let thread = address("discord:42:43");
        assert_eq!(
            (thread.id.as_str(), thread.thread_id.as_deref()),
            ("43", Some("43"))
        );
        assert_eq!(thread.parent_id.as_deref(), Some("42"));
    }
}
