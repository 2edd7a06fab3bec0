//! A bot account on Telegram, by the bot API.
//!
//! Updates are kept as Telegram sends them and read later, so that one unknown member never loses a batch. What older
//! servers do not know (rich messages, drafts) is found out by using it, and remembered.

mod api;
mod attachments;
mod decode;
mod download;
mod identity;
mod open_drafts;
mod post;
mod preview;
mod receive;
mod text;
mod webhook;

use std::{path::Path, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use hermes_agent::policy::PolicyHandle;
use hermes_config::{PlatformSettings, WebhookSettings, sync::Mutex};
use hermes_store::mirror::Channel;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    Account, Attachment, ChatAddress, ClientLimits, CommandSpec, FatalError, InboundEvent,
    InboundKind, LivePreview, OutboundMessage, PlatformClient, PlatformHealth, PostError, Posted,
    UpdateIntake,
};
use crate::send::{SendError, count_utf16};
use api::{BotApi, BotApiError};
use identity::{BotIdentity, ServerFeature};
use open_drafts::OpenDrafts;

pub use receive::TelegramTiming;

/// More commands than this are not shown by every program of Telegram's.
const MAX_COMMANDS: usize = 60;
const MAX_COMMAND_DESCRIPTION: usize = 256;
/// The notice below a pressed button.
const MAX_NOTICE: usize = 200;

pub struct TelegramClient {
    account: Account,
    api: Arc<BotApi>,
    webhook: Option<WebhookSettings>,
    timing: TelegramTiming,
    identity: Mutex<BotIdentity>,
    rich_messages: Arc<ServerFeature>,
    drafts: Arc<ServerFeature>,
    rich_drafts: Arc<ServerFeature>,
    open_drafts: Arc<OpenDrafts>,
}

impl TelegramClient {
    pub fn new(account: Account, settings: &PlatformSettings) -> Result<Self, SendError> {
        Self::with_policy(account, settings, &PolicyHandle::default())
    }

    /// The same for a home with an operator.
    pub fn with_policy(
        account: Account,
        settings: &PlatformSettings,
        policy: &PolicyHandle,
    ) -> Result<Self, SendError> {
        let api = BotApi::new(settings, policy)?;
        let identity = BotIdentity {
            id: api.bot_id(),
            ..BotIdentity::default()
        };
        Ok(Self {
            account,
            api: Arc::new(api),
            webhook: settings.webhook.clone(),
            timing: TelegramTiming::default(),
            identity: Mutex::new(identity),
            rich_messages: Arc::default(),
            drafts: Arc::default(),
            rich_drafts: Arc::default(),
            open_drafts: Arc::default(),
        })
    }

    /// Overrides the waits.
    #[must_use]
    pub fn with_timing(mut self, timing: TelegramTiming) -> Self {
        self.timing = timing;
        self
    }

    /// Whether the bot sees only what is meant for it in groups; `None` until Telegram has told.
    pub fn has_privacy_mode(&self) -> Option<bool> {
        self.identity().reads_all.map(|reads_all| !reads_all)
    }

    fn identity(&self) -> BotIdentity {
        self.identity.lock().clone()
    }

    fn set_identity(&self, identity: BotIdentity) {
        *self.identity.lock() = identity;
    }

    /// Calls a method of which only the success matters.
    async fn call(&self, method: &str, fields: Map<String, Value>) -> Result<(), PostError> {
        let called = self.api.call(method, &fields.into()).await;
        called.map(drop).map_err(BotApiError::into_post_error)
    }
}

impl PlatformClient for TelegramClient {
    fn account(&self) -> &Account {
        &self.account
    }

    fn platform_time(&self) -> f64 {
        self.api.clock.now()
    }

    fn bot_name(&self) -> Option<String> {
        self.identity().username
    }

    fn limits(&self) -> ClientLimits {
        ClientLimits {
            message: 4096,
            caption: 1024,
            measure: count_utf16,
            edit_interval: (Duration::from_secs(1), Duration::from_secs(3)),
            typing_interval: Duration::from_secs(4),
            album: 10,
        }
    }

    fn receive<'a>(
        &'a self,
        intake: &'a dyn UpdateIntake,
        health: &'a PlatformHealth,
        stop: CancellationToken,
    ) -> BoxFuture<'a, Result<(), FatalError>> {
        Box::pin(async move {
            match &self.webhook {
                Some(webhook) => {
                    self.receive_by_webhook(webhook, intake, health, &stop)
                        .await
                }
                None => self.receive_updates(intake, health, &stop).await,
            }
        })
    }

    fn decode(&self, payload: &Value) -> Option<InboundEvent> {
        // A Stop that waited in an outage is about an answer that is over, and must not end another one.
        let stopped = decode::stopped_draft(payload);
        if stopped.is_some_and(|draft| !self.open_drafts.contains(draft)) {
            return None;
        }
        decode::decode_update(payload, &self.identity())
    }

    fn post<'a>(
        &'a self,
        chat: &'a ChatAddress,
        message: &'a OutboundMessage,
    ) -> BoxFuture<'a, Result<Posted, PostError>> {
        Box::pin(self.post_message(chat, message))
    }

    fn edit<'a>(
        &'a self,
        chat: &'a ChatAddress,
        message_id: &'a str,
        message: &'a OutboundMessage,
    ) -> BoxFuture<'a, Result<(), PostError>> {
        Box::pin(self.edit_message(chat, message_id, message))
    }

    fn delete<'a>(
        &'a self,
        chat: &'a ChatAddress,
        message_id: &'a str,
    ) -> BoxFuture<'a, Result<(), PostError>> {
        Box::pin(async move {
            let fields = json!({
                "chat_id": post::chat_id(chat),
                "message_id": post::number_or_text(message_id),
            });
            match self.api.call("deleteMessage", &fields).await {
                Ok(_) => Ok(()),
                Err(error) if error.says("message to delete not found") => Ok(()),
                Err(error) => Err(error.into_post_error()),
            }
        })
    }

    fn show_typing<'a>(&'a self, chat: &'a ChatAddress) -> BoxFuture<'a, Result<(), PostError>> {
        Box::pin(async move {
            let mut fields = post::address_fields(chat);
            fields.insert("action".into(), json!("typing"));
            // Unlike messages, the typing sign needs the number of the general topic to be seen there.
            if let Some(topic) = &chat.thread_id {
                fields.insert("message_thread_id".into(), post::number_or_text(topic));
            }
            self.call("sendChatAction", fields).await
        })
    }

    fn open_preview<'a>(
        &'a self,
        chat: &'a ChatAddress,
        _reply_to: Option<&'a InboundEvent>,
    ) -> BoxFuture<'a, Result<Option<Box<dyn LivePreview>>, PostError>> {
        Box::pin(self.open_draft(chat))
    }

    fn acknowledge<'a>(
        &'a self,
        event: &'a InboundEvent,
        notice: Option<&'a str>,
    ) -> BoxFuture<'a, Result<(), PostError>> {
        Box::pin(async move {
            let InboundKind::ButtonPress(press) = &event.kind else {
                return Ok(());
            };
            let mut fields = json!({"callback_query_id": press.token});
            if let Some(notice) = notice {
                let notice: String = notice.chars().take(MAX_NOTICE).collect();
                fields["text"] = json!(notice);
            }
            match self.api.call("answerCallbackQuery", &fields).await {
                Ok(_) => Ok(()),
                // Nobody sees the confirmation any more.
                Err(error) if error.says("query is too old") => Err(PostError::TooLate),
                Err(error) => Err(error.into_post_error()),
            }
        })
    }

    fn react<'a>(
        &'a self,
        chat: &'a ChatAddress,
        message_id: &'a str,
        reaction: &'a str,
    ) -> BoxFuture<'a, Result<(), PostError>> {
        Box::pin(async move {
            let reactions = match reaction {
                "" => json!([]),
                emoji => json!([{"type": "emoji", "emoji": emoji}]),
            };
            let fields = [
                ("chat_id", post::chat_id(chat)),
                ("message_id", post::number_or_text(message_id)),
                ("reaction", reactions),
            ];
            let fields = fields.map(|(name, value)| (name.to_owned(), value));
            self.call("setMessageReaction", Map::from_iter(fields))
                .await
        })
    }

    fn download<'a>(
        &'a self,
        attachment: &'a Attachment,
        file: &'a Path,
        max_bytes: u64,
    ) -> BoxFuture<'a, Result<(), PostError>> {
        Box::pin(self.download_file(attachment, file, max_bytes))
    }

    fn register_commands<'a>(
        &'a self,
        commands: &'a [CommandSpec],
    ) -> BoxFuture<'a, Result<(), PostError>> {
        Box::pin(async move {
            let listed: Vec<Value> = commands
                .iter()
                .take(MAX_COMMANDS)
                .map(|command| {
                    let description = command.description.chars();
                    let description: String = description.take(MAX_COMMAND_DESCRIPTION).collect();
                    json!({
                        // Telegram's commands have no hyphens.
                        "command": command.name.replace('-', "_"),
                        "description": description,
                    })
                })
                .collect();
            let fields = Map::from_iter([("commands".to_owned(), Value::Array(listed))]);
            self.call("setMyCommands", fields).await
        })
    }

    fn list_channels(&self) -> BoxFuture<'_, Result<Vec<Channel>, PostError>> {
        // Telegram lists no chats: they are known from conversations.
        Box::pin(async { Ok(Vec::new()) })
    }

    fn open_thread<'a>(
        &'a self,
        _chat: &'a ChatAddress,
        _message_id: &'a str,
        _name: &'a str,
    ) -> BoxFuture<'a, Result<Option<ChatAddress>, PostError>> {
        Box::pin(async { Ok(None) })
    }
}
