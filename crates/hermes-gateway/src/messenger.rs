//! Implements the agent's `send_message`.

use std::sync::Arc;

use futures::{FutureExt as _, future::BoxFuture};
use hermes_agent::{
    policy::PolicyHandle,
    tools::send_message::{Messenger, OutgoingMessage},
};
use hermes_config::{Home, Settings};
use serde_json::{Value, json};

use crate::{
    conversations::ConversationIndex,
    delivery_targets::check_delivery,
    send::{MediaPolicy, MessageSender, SendError},
};

/// Sends messages for a home, as `hermes send` does, but notifies no whole groups of people.
#[derive(Debug, Clone)]
pub struct HomeMessenger {
    home: Home,
    policy: PolicyHandle,
}

impl HomeMessenger {
    pub fn new(home: &Home) -> Arc<Self> {
        Self::with_policy(home, &PolicyHandle::default())
    }

    /// The same for a home with an operator.
    pub fn with_policy(home: &Home, policy: &PolicyHandle) -> Arc<Self> {
        Arc::new(Self {
            home: home.clone(),
            policy: policy.clone(),
        })
    }
}

fn error_value(error: &SendError) -> Value {
    match serde_json::to_value(error) {
        Ok(value) if value.get("error").is_some() => value,
        _ => json!({"error": error.to_string()}),
    }
}

impl Messenger for HomeMessenger {
    fn send(
        &self,
        settings: Arc<Settings>,
        message: OutgoingMessage,
    ) -> BoxFuture<'_, Result<Value, Value>> {
        async move {
            let sender = MessageSender::new(&self.home, &settings).with_policy(&self.policy);
            let sent = sender
                .without_broadcasts()
                .send_with_files(
                    &message.target,
                    &message.text,
                    MediaPolicy::Upload,
                    &message.media,
                )
                .await;
            match sent {
                Ok(sent) => Ok(json!(sent)),
                Err(error) => Err(error_value(&error)),
            }
        }
        .boxed()
    }

    fn list_chats(
        &self,
        settings: Arc<Settings>,
        platform: Option<String>,
    ) -> BoxFuture<'_, Result<Value, Value>> {
        async move {
            let sender = MessageSender::new(&self.home, &settings);
            let conversations = ConversationIndex::open(&self.home);
            let targets = sender
                .list_targets(&conversations, platform.as_deref())
                .await;
            conversations.close().await;
            match targets {
                Ok(targets) => Ok(json!({"count": targets.len(), "channels": targets})),
                Err(error) => Err(error_value(&error)),
            }
        }
        .boxed()
    }

    fn check_delivery(
        &self,
        settings: &Settings,
        deliver: &str,
        origin: Option<&Value>,
    ) -> Result<(), String> {
        check_delivery(&self.home, &settings.gateway, deliver, origin)
            .map_err(|refusal| refusal.to_string())
    }
}
