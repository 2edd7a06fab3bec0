//! Messages that reach the model within the turn that goes on: `display.busy_input_mode: steer`.
//!
//! They are begun in the inbox before the turn stores them, and done with the turn. After a crash the last one that was
//! stored is what the next process answers.

use std::sync::Arc;

use hermes_agent::conversation::SteeringMessage;
use hermes_config::BusyInputMode;
use hermes_store::StoreError;

use super::{
    turn_handle::TurnHandle,
    waiting_turns::{MergePolicy, WaitingTurn, WorkerState},
};
use crate::inbound::{InboundCore, session_worker::WorkerInput};

/// What may join a turn.
pub(in crate::inbound) struct TurnSteering {
    pub(in crate::inbound) core: Arc<InboundCore>,
    pub(in crate::inbound) state: Arc<WorkerState>,
    pub(in crate::inbound) handle: Arc<TurnHandle>,
}

impl TurnSteering {
    /// Takes what waits, for the next request of the turn.
    pub(in crate::inbound) async fn take_messages(&self) -> Vec<SteeringMessage> {
        if self.core.busy_mode() != BusyInputMode::Steer {
            return Vec::new();
        }
        let waiting = self.state.take_joinable();
        // At once: a turn that is stopped now ends with them.
        for turn in &waiting {
            self.handle.join(&turn.inputs);
        }
        let mut taken = Vec::with_capacity(waiting.len());
        for turn in waiting {
            match self.take_message(&turn.inputs).await {
                Ok(Some(message)) => {
                    self.handle.set_answered(&turn.inputs);
                    taken.push(message);
                }
                Ok(None) => self.leave(turn),
                Err(error) => {
                    tracing::error!(%error, "a message could not join its turn");
                    self.leave(turn);
                }
            }
        }
        taken
    }

    /// What the model gets of a message; `None` if it is not for the model.
    async fn take_message(
        &self,
        inputs: &[WorkerInput],
    ) -> Result<Option<SteeringMessage>, StoreError> {
        let core = &self.core;
        let Some(first) = inputs.first() else {
            return Ok(None);
        };
        let chat = &first.chat;
        let Ok(built) = core.read_inputs(chat, inputs).await else {
            return Ok(None);
        };
        let mut is_new = false;
        for input in inputs {
            let begun = core.gateway.store();
            is_new |= begun.start_update(&input.key, Some(&chat.key)).await?;
        }
        if !is_new {
            return Ok(None);
        }
        let message_id = first.message().map(|message| message.id.clone());
        core.show_receipt(chat, message_id.as_deref());
        core.routing.touch(&chat.key, &chat.origin);
        if let Some(notice) = &built.notice {
            let dedupe_key = crate::inbound::dedupe_key("notice", &first.key);
            core.queue_text(chat, notice, message_id.as_deref(), &dedupe_key)
                .await;
        }
        Ok(Some(SteeringMessage {
            content: built.content,
            note: built.note,
            platform_message_id: message_id,
        }))
    }

    /// Gives it a turn of its own.
    fn leave(&self, turn: WaitingTurn) {
        self.handle.leave(&turn.inputs);
        self.state.push(WaitingTurn {
            joining: MergePolicy::Never,
            ..turn
        });
    }
}
