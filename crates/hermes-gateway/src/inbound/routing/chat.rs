//! One conversation on a platform: the account it is with, its address, and its session key.

use std::sync::Arc;

use hermes_config::{GatewaySettings, PlatformSettings};
use hermes_store::{NewSession, Origin, SessionId, SessionKey, SessionKeyPolicy};
use serde_json::{Value, json};

use crate::{
    access::mentions::MentionRules,
    platform::{Account, ChatAddress, InboundEvent, InboundKind, SharedClient},
};

/// A bot account that is connected, or tries to be.
pub(in crate::inbound) struct LiveAccount {
    pub(in crate::inbound) account: Account,
    pub(in crate::inbound) client: SharedClient,
    pub(in crate::inbound) settings: PlatformSettings,
    pub(in crate::inbound) mentions: MentionRules,
}

/// A conversation, as one event of it shows it.
#[derive(Clone)]
pub(in crate::inbound) struct Chat {
    pub(in crate::inbound) account: Arc<LiveAccount>,
    pub(in crate::inbound) address: ChatAddress,
    pub(in crate::inbound) origin: Origin,
    pub(in crate::inbound) key: SessionKey,
    /// Whether several people share it.
    pub(in crate::inbound) is_shared: bool,
}

impl Chat {
    pub(in crate::inbound) fn new(
        account: &Arc<LiveAccount>,
        event: &InboundEvent,
        settings: &GatewaySettings,
    ) -> Self {
        let origin = event_origin(&account.account, event);
        let policy = key_policy(settings);
        let is_shared = !event.chat.is_direct()
            && match event.chat.thread_id {
                Some(_) => !(policy.group_sessions_per_user && policy.thread_sessions_per_user),
                None => !policy.group_sessions_per_user,
            };
        Self {
            account: account.clone(),
            address: event.chat.clone(),
            key: origin.session_key(&policy),
            origin,
            is_shared,
        }
    }

    /// The time by the clock that its messages carry.
    pub(in crate::inbound) fn platform_time(&self) -> f64 {
        self.account.client.platform_time()
    }

    /// The name of the platform in files and keys.
    pub(in crate::inbound) fn label(&self) -> &str {
        &self.origin.platform
    }

    /// The row of a session that begins here.
    pub(in crate::inbound) fn session_row(&self, id: SessionId) -> NewSession {
        NewSession {
            session_key: Some(self.key.clone()),
            display_name: self
                .origin
                .chat_name
                .clone()
                .or_else(|| self.origin.user_name.clone()),
            origin: Some(self.origin.clone()),
            ..NewSession::new(id, self.label())
        }
    }

    /// The chat, as cron jobs store it.
    pub(in crate::inbound) fn cron_origin(&self) -> Value {
        json!({
            "platform": self.label(),
            "chat_id": self.origin.chat_id,
            "chat_name": self.origin.chat_name,
            "thread_id": self.origin.thread_id,
        })
    }
}

fn key_policy(settings: &GatewaySettings) -> SessionKeyPolicy {
    SessionKeyPolicy {
        profile: None,
        group_sessions_per_user: settings.group_sessions_per_user,
        thread_sessions_per_user: settings.thread_sessions_per_user,
    }
}

fn event_origin(account: &Account, event: &InboundEvent) -> Origin {
    let sender = event.sender.as_ref();
    let chat = &event.chat;
    let message_id = match &event.kind {
        InboundKind::Message(message) => Some(message.id.clone()),
        _ => None,
    };
    Origin {
        platform: account.label(),
        chat_id: Some(chat.id.clone()),
        // A direct chat is called by who is in it.
        chat_name: chat
            .name
            .clone()
            .or_else(|| sender?.name.clone().filter(|_| chat.is_direct())),
        chat_type: chat.kind.as_str().to_owned(),
        user_id: sender.map(|sender| sender.id.clone()),
        user_name: sender.and_then(|sender| sender.name.clone()),
        thread_id: chat.thread_id.clone(),
        chat_topic: chat.topic.clone(),
        scope_id: chat.scope_id.clone(),
        parent_chat_id: chat.parent_id.clone(),
        message_id,
        ..Origin::default()
    }
}
