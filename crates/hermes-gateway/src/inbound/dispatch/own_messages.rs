//! Messages of the bot, by the platform's ids of them: recorded when they are sent, found when somebody replies.

use std::sync::Arc;

use hermes_config::Platform;

use crate::{
    inbound::{InboundCore, routing::chat::Chat},
    platform::{ChatKind, InboundMessage},
};

impl InboundCore {
    /// Records the platform's ids of answers with them.
    pub(in crate::inbound) fn record_sent_answers(&self) {
        let store = self.gateway.agent().store().clone();
        self.outbox
            .set_sent_handler(Arc::new(move |message, platform_message: String| {
                let store = store.clone();
                Box::pin(async move {
                    let recorded = store.set_platform_message(message, &platform_message);
                    if let Err(error) = recorded.await {
                        tracing::warn!(%error, "failed to record the platform's id of an answer");
                    }
                })
            }));
    }

    /// Completes what a message replies to, where the platform gives only its id.
    pub(in crate::inbound) async fn complete_quote(
        &self,
        chat: &Chat,
        message: &mut InboundMessage,
    ) {
        let Some(quoted) = &mut message.quoted else {
            return;
        };
        if quoted.is_from_bot || quoted.author.is_some() {
            return;
        }
        if let Some(text) = self.find_own_message(chat, &quoted.id).await {
            quoted.is_from_bot = true;
            if quoted.text.is_empty() {
                quoted.text = text;
            }
        }
    }

    /// Whether the bot takes part in the thread of a chat: it was spoken to there, or it wrote what the thread is about.
    pub(in crate::inbound) async fn has_spoken_in_thread(&self, chat: &Chat) -> bool {
        // A message whose answer gets a thread has nothing before it there.
        let Some(thread) =
            find_thread(chat).filter(|thread| chat.origin.message_id.as_ref() != Some(thread))
        else {
            return false;
        };
        if self.routing.has_spoken(&chat.key) {
            return true;
        }
        let store = self.gateway.agent().store();
        let found = store.has_exchange(&chat.key).await;
        let has_spoken = found.unwrap_or_else(|error| {
            tracing::warn!(session_key = %chat.key, %error, "failed to look up a thread");
            false
        });
        if has_spoken {
            self.routing.mark_spoken(&chat.key);
        }
        has_spoken || self.find_own_message(chat, thread).await.is_some()
    }

    /// Records that the bot says something in a chat: from now on its thread counts as addressed, after a restart too.
    pub(in crate::inbound) fn note_spoken(&self, chat: &Chat) {
        if find_thread(chat).is_some() {
            self.routing.join_thread(&chat.key, &chat.origin);
        } else {
            self.routing.mark_spoken(&chat.key);
        }
    }

    /// The text of a message of the bot in a chat, or in the channel around it.
    async fn find_own_message(&self, chat: &Chat, id: &str) -> Option<String> {
        let store = self.gateway.agent().store();
        let address = &chat.address;
        for place in std::iter::once(&address.id).chain(&address.parent_id) {
            match store.sent_message(chat.label(), place, id).await {
                Ok(None) => {}
                Ok(found) => return found,
                Err(error) => {
                    tracing::warn!(session_key = %chat.key, %error, "failed to look up a message");
                }
            }
        }
        None
    }
}

/// The thread that a chat is.
fn find_thread(chat: &Chat) -> Option<&String> {
    let address = &chat.address;
    match (chat.account.account.platform, address.kind) {
        // A topic is a place of its own, not an exchange with the bot.
        (Platform::Telegram, _) => None,
        // Discord gives a thread the id of the message that it is about.
        (Platform::Discord, ChatKind::Thread) => Some(&address.id),
        _ => address.thread_id.as_ref(),
    }
}
