//! Who may use a bot, and whether it is meant: what comes before a conversation.

use std::sync::Arc;

use hermes_agent::conversation::hosting_tenant;
use hermes_config::{GatewaySettings, Platform};
use hermes_store::{NewMessage, Role, StoreError};

use super::group_albums::AlbumAddress;
use crate::{
    access::{
        AccessDecision, AccessRules, CodeOffer, TOO_MANY_PENDING, authorize, code_message,
        mentions::{AddressedBy, Addressing, GroupContext},
    },
    inbound::{
        InboundCore,
        accounts::intake::StoredUpdate,
        routing::chat::{Chat, LiveAccount},
        turn::user_content::sender_name,
    },
    platform::{ChatKind, InboundEvent, InboundKind, OutboundMessage},
};

/// The longest name of a thread that is opened for an answer, in characters.
const MAX_THREAD_NAME_CHARS: usize = 80;

impl InboundCore {
    /// The chat of an event that goes on. One that does not is done with this.
    pub(in crate::inbound) async fn admit(
        self: &Arc<Self>,
        account: &Arc<LiveAccount>,
        event: &mut InboundEvent,
        update: &StoredUpdate,
    ) -> Option<Chat> {
        let settings = self.gateway.agent().settings();
        match self.authorize_event(account, event, &settings.gateway) {
            AccessDecision::Allowed(_) => {}
            AccessDecision::Refused => {
                self.refuse(account, event, update).await;
                return None;
            }
            AccessDecision::OfferCode => {
                self.acknowledge(account, event, None);
                self.forget(&update.key).await;
                // An old message gets no code: nobody waits for it.
                if update.attempts == 0 {
                    self.offer_code(account, event);
                }
                return None;
            }
        }
        self.directory.note_chat(&account.account, &event.chat);
        let place = event.chat.clone();
        place_answer(account, event);
        let chat = Chat::new(account, event, &settings.gateway);
        if let InboundKind::Message(message) = &mut event.kind {
            self.complete_quote(&chat, message).await;
        }
        let mut context = GroupContext {
            has_spoken_in_thread: false,
            is_own_command: crate::inbound::commands::is_command(event, account)
                || self.is_awaited_word(&chat, event),
        };
        let mut addressing = account.mentions.judge(event, context);
        // Looked up only where it matters.
        if !addressing.is_addressed() && self.has_spoken_in_thread(&chat).await {
            context.has_spoken_in_thread = true;
            addressing = account.mentions.judge(event, context);
        }
        if addressing.is_addressed() {
            self.address_album(account, event).await;
        } else {
            match self.album_address(account, event) {
                AlbumAddress::Addressed => {
                    addressing = Addressing::Addressed(AddressedBy::Album);
                }
                AlbumAddress::Open => {
                    self.await_album(account, event, update);
                    return None;
                }
                AlbumAddress::No => {}
            }
        }
        match addressing {
            Addressing::Addressed(_) => Some(chat),
            Addressing::Observed => {
                // It begins no thread: it belongs to what is said in the channel.
                event.chat = place;
                let chat = Chat::new(account, event, &settings.gateway);
                if let Err(error) = self.observe(&chat, event).await {
                    tracing::error!(session_key = %chat.key, %error, "failed to store an observed message");
                }
                self.finish(&update.key).await;
                None
            }
            Addressing::Ignored => {
                self.forget(&update.key).await;
                self.acknowledge(account, event, Some("This bot does not answer here."));
                None
            }
        }
    }

    pub(in crate::inbound) fn authorize_event(
        &self,
        account: &LiveAccount,
        event: &InboundEvent,
        settings: &GatewaySettings,
    ) -> AccessDecision {
        let label = account.account.label();
        let is_paired = |user: &str| self.pairing.is_approved(&label, user);
        let rules = AccessRules {
            gateway: settings,
            account: &account.settings,
            is_paired: &is_paired,
        };
        authorize(event, &rules)
    }

    /// Nothing is said to somebody who may not, but a button must not seem to hang.
    async fn refuse(
        self: &Arc<Self>,
        account: &Arc<LiveAccount>,
        event: &InboundEvent,
        update: &StoredUpdate,
    ) {
        let sender = event.sender.as_ref().map(|sender| sender.id.as_str());
        tracing::info!(platform = %account.account, chat = event.chat.id, sender, "message from an unauthorized user");
        self.forget(&update.key).await;
        self.acknowledge(account, event, Some("You may not use this bot."));
    }

    /// Confirms a pressed button or a command of the platform's own. The platform waits for that a few seconds, so it
    /// is done before anything that may take longer.
    pub(in crate::inbound) fn acknowledge(
        &self,
        account: &Arc<LiveAccount>,
        event: &InboundEvent,
        notice: Option<&'static str>,
    ) {
        if matches!(
            event.kind,
            InboundKind::ButtonPress(_) | InboundKind::Command(_)
        ) {
            let (account, event) = (account.clone(), event.clone());
            self.tasks.spawn(async move {
                let shown = account.client.acknowledge(&event, notice).await;
                if let Err(error) = shown {
                    tracing::info!(platform = %account.account, %error, "failed to acknowledge a command");
                }
            });
        }
    }

    /// Sends a pairing code to a stranger who wrote first.
    fn offer_code(self: &Arc<Self>, account: &Arc<LiveAccount>, event: &InboundEvent) {
        let Some(sender) = &event.sender else {
            return;
        };
        let (user, name) = (sender.id.clone(), sender_name(sender));
        let (core, account, chat) = (self.clone(), account.clone(), event.chat.clone());
        self.tasks.spawn(async move {
            let label = account.account.label();
            let pairing = core.pairing.clone();
            let (asked, for_user) = (label.clone(), user.clone());
            let requested = tokio::task::spawn_blocking(move || {
                pairing.request_code(&asked, &for_user, &name)
            });
            let text = match requested.await {
                Ok(Ok(CodeOffer::Issued(issued))) => {
                    let settings = core.gateway.agent().settings();
                    code_message(&label, issued.expose(), hosting_tenant(&settings))
                }
                Ok(Ok(CodeOffer::TooManyPending)) => TOO_MANY_PENDING.to_owned(),
                Ok(Ok(CodeOffer::Withheld)) | Err(_) => return,
                Ok(Err(error)) => {
                    tracing::error!(platform = %account.account, %error, "failed to make a pairing code");
                    return;
                }
            };
            let message = OutboundMessage::text(text);
            let posted = core.outbox.post_now(&account.account, &chat, message).await;
            if let Err(error) = posted {
                tracing::warn!(platform = %account.account, %error, "failed to send a pairing code");
            }
        });
    }

    /// Stores what was said in a group and not meant for the bot.
    async fn observe(&self, chat: &Chat, event: &InboundEvent) -> Result<(), StoreError> {
        let InboundKind::Message(message) = &event.kind else {
            return Ok(());
        };
        if message.text.trim().is_empty() {
            return Ok(());
        }
        let session = self.routing.session(&chat.key, &chat.origin).await?;
        let store = self.gateway.agent().store();
        store
            .create_session(&chat.session_row(session.id.clone()))
            .await?;
        let name = event.sender.as_ref().map(sender_name).unwrap_or_default();
        let row = NewMessage {
            platform_message_id: Some(message.id.clone()),
            observed: true,
            ..NewMessage::new(Role::User, format!("[{name}] {}", message.text))
        };
        store.append(&session.id, &row).await?;
        Ok(())
    }

    /// Whether an answer gets a thread of its own.
    pub(in crate::inbound) fn wants_thread(&self, chat: &Chat, event: &InboundEvent) -> bool {
        matches!(event.kind, InboundKind::Message(_))
            && chat.account.account.platform == Platform::Discord
            && event.chat.kind == ChatKind::Group
            && chat.account.mentions.opens_thread(&event.chat)
    }

    /// Opens the thread that an answer goes to. On failure the channel is used.
    pub(in crate::inbound) async fn open_answer_thread(
        &self,
        chat: &Chat,
        event: &InboundEvent,
    ) -> Option<Chat> {
        let account = &chat.account;
        let InboundKind::Message(message) = &event.kind else {
            return None;
        };
        let first_line = message.text.lines().next().unwrap_or_default().trim();
        let name: String = match first_line {
            "" => "Conversation".to_owned(),
            line => line.chars().take(MAX_THREAD_NAME_CHARS).collect(),
        };
        let opened = account
            .client
            .open_thread(&event.chat, &message.id, &name)
            .await;
        match opened {
            Ok(thread) => {
                let mut moved = event.clone();
                moved.chat = thread?;
                let settings = self.gateway.agent().settings();
                let mut chat = Chat::new(account, &moved, &settings.gateway);
                chat.origin.auto_thread_created = true;
                chat.origin.auto_thread_initial_name = Some(name);
                Some(chat)
            }
            Err(error) => {
                tracing::warn!(platform = %account.account, %error, "failed to open a thread; answering in the channel");
                None
            }
        }
    }
}

/// Where an answer in a channel of Slack goes: to the thread of the message that it answers.
pub(in crate::inbound) fn place_answer(account: &LiveAccount, event: &mut InboundEvent) {
    if account.account.platform != Platform::Slack
        || !account.settings.reply_in_thread
        || event.chat.is_direct()
        || event.chat.thread_id.is_some()
    {
        return;
    }
    if let InboundKind::Message(message) = &event.kind {
        event.chat.thread_id = Some(message.id.clone());
    }
}
