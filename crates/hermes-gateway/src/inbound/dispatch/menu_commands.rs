//! Commands of Slack's menu: Slack does not tell in which thread somebody used them, and answers in channels are in
//! threads. So the conversation that is meant is looked for.

use std::collections::HashSet;

use hermes_config::Platform;
use hermes_store::SessionKey;

use crate::{
    chat_commands::{CommandName, TypedCommand},
    inbound::{InboundCore, routing::chat::Chat},
    platform::{CommandCall, InboundEvent},
};

impl InboundCore {
    /// The conversation in a thread that a command means, if it cannot mean another one: the only one of the channel
    /// that is open to the caller and has something to stop or to decide.
    pub(in crate::inbound) fn find_meant_chat(
        &self,
        chat: &Chat,
        event: &InboundEvent,
        call: &CommandCall,
    ) -> Option<Chat> {
        let account = &chat.account;
        if account.account.platform != Platform::Slack || chat.address.thread_id.is_some() {
            return None;
        }
        let active = self.find_active(call)?;
        if active.contains(&chat.key) {
            return None;
        }
        let settings = self.gateway.agent().settings();
        let mut meant = active.iter().filter_map(|key| {
            let entry = self.routing.entry(key)?;
            let origin = entry.origin.as_ref()?;
            let is_in_channel = origin.platform == chat.label()
                && origin.chat_id.as_ref() == Some(&chat.address.id)
                && origin.thread_id.is_some();
            let mut moved = event.clone();
            moved.chat.thread_id.clone_from(&origin.thread_id);
            // Another key: somebody else's conversation.
            let found = Chat::new(account, &moved, &settings.gateway);
            (is_in_channel && found.key == *key).then_some(found)
        });
        let first = meant.next()?;
        meant.next().is_none().then_some(first)
    }

    /// The conversations that a command can be about; `None` for a command that is not about what goes on.
    fn find_active(&self, call: &CommandCall) -> Option<HashSet<SessionKey>> {
        let TypedCommand::Known(request) = TypedCommand::from_call(call) else {
            return None;
        };
        let mut active = self.cards.waiting_sessions();
        match request.name {
            CommandName::Approve | CommandName::Deny => {}
            CommandName::Stop | CommandName::New | CommandName::Status => {
                active.extend(self.busy_conversations());
            }
            _ => return None,
        }
        Some(active)
    }
}
