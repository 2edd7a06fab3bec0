//! Events of a conversation for which there was no room: they stay in the inbox, and are taken up in order.

use hermes_store::{SessionKey, runtime::InboxRow};

use super::admission::place_answer;
use crate::inbound::{
    InboundCore, routing::chat::Chat, session_worker::WorkerInput,
    session_worker::waiting_turns::WorkerState,
};

impl InboundCore {
    /// Leaves an event that was counted in the inbox.
    pub(in crate::inbound) async fn defer(&self, input: &WorkerInput, state: &WorkerState) {
        let store = self.gateway.store();
        match store.defer_update(&input.key, &input.chat.key).await {
            Ok(true) => {
                state.announce_deferred();
                return;
            }
            // It was done before.
            Ok(false) => {}
            Err(error) => {
                // The next start finds it.
                tracing::error!(session_key = %input.chat.key, %error, "failed to defer an update");
            }
        }
        state.discount_deferred(1);
        self.taken.lock().remove(&input.key);
    }

    /// Takes events of a conversation from the inbox, oldest first.
    pub(in crate::inbound) async fn take_deferred(
        &self,
        chat: &Chat,
        most: usize,
        state: &WorkerState,
    ) -> Vec<WorkerInput> {
        let rows = match self.gateway.store().take_deferred(&chat.key, most).await {
            Ok(rows) => rows,
            Err(error) => {
                tracing::error!(session_key = %chat.key, %error, "failed to read the inbox");
                return Vec::new();
            }
        };
        let mut taken = Vec::with_capacity(rows.len());
        for row in rows {
            let key = row.key();
            if let Some(input) = self.read_deferred(chat, &row) {
                taken.push(input);
            } else {
                self.forget(&key).await;
                state.discount_deferred(1);
            }
        }
        taken
    }

    fn read_deferred(&self, chat: &Chat, row: &InboxRow) -> Option<WorkerInput> {
        let account = &chat.account;
        let mut event = account.client.decode(&row.payload)?;
        place_answer(account, &mut event);
        let settings = self.gateway.agent().settings();
        let own = Chat::new(account, &event, &settings.gateway);
        Some(WorkerInput {
            // In a thread that was opened for the answer, the event names the channel.
            chat: if own.key == chat.key {
                own
            } else {
                chat.clone()
            },
            event,
            key: row.key(),
            attempts: row.attempts,
            is_left_over: true,
        })
    }

    /// Drops what a conversation left in the inbox. Returns how much it was.
    pub(in crate::inbound) async fn drop_deferred(
        &self,
        key: &SessionKey,
        state: &WorkerState,
    ) -> usize {
        let mut dropped = 0;
        for input in state.drop_taken_up() {
            self.finish(&input.key).await;
            dropped += 1;
        }
        match self.gateway.store().finish_deferred(key).await {
            Ok(keys) => {
                dropped += keys.len();
                let mut taken = self.taken.lock();
                for key in &keys {
                    taken.remove(key);
                }
            }
            Err(error) => {
                tracing::error!(session_key = %key, %error, "failed to drop deferred updates");
            }
        }
        state.discount_deferred(dropped);
        dropped
    }
}
