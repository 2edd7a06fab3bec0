//! Sessions between two turns: deleting one, and summarizing its conversation.

use hermes_agent::{
    approval::DenyAllApprover,
    conversation::{Consent, Conversation, ConversationError, ConversationSetup, SessionReference},
    turn::TurnEvent,
};
use hermes_store::{SessionId, StoreError};
use tokio_util::sync::CancellationToken;

use super::Runs;

/// What came of deleting a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionDeletion {
    Deleted,
    /// There was no such session.
    Absent,
    /// A turn goes on in it, or waits for it.
    InUse,
}

impl Runs {
    /// Deletes a session with its messages, and ends its background processes. A turn that comes meanwhile waits.
    pub async fn delete_session(&self, session: &SessionId) -> Result<SessionDeletion, StoreError> {
        let Some(slot) = self.inner.session_slots.free_slot(session) else {
            return Ok(SessionDeletion::InUse);
        };
        let Some(mut seat) = slot.try_acquire() else {
            return Ok(SessionDeletion::InUse);
        };
        if let Some(conversation) = seat.take() {
            conversation.detach().await;
        }
        let store = self.inner.parts.agent.store();
        Ok(if store.delete_session(session).await? {
            SessionDeletion::Deleted
        } else {
            SessionDeletion::Absent
        })
    }
}

/// How many messages a conversation had before it was summarized, and has now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompressedSession {
    pub before: usize,
    pub after: usize,
}

impl Runs {
    /// Summarizes the conversation of a session. Waits for the turn that goes on in it.
    pub async fn compress_session(
        &self,
        session: &SessionId,
        stop: CancellationToken,
    ) -> Result<CompressedSession, ConversationError> {
        let parts = &self.inner.parts;
        let place = self.inner.session_slots.join_queue(session);
        let (slot, mut seat) = place.acquire().await;
        let mut conversation = if let Some(conversation) = seat.take() {
            conversation
        } else {
            let consent = Consent::Ask(std::sync::Arc::new(DenyAllApprover));
            let setup = ConversationSetup::for_cli(parts.directory.clone(), consent);
            let which = SessionReference::Named(session.to_string());
            Conversation::resume(parts.agent.clone(), &which, setup).await?
        };
        conversation.refresh_messages().await?;
        let before = conversation.messages().len();
        let mut display = |_: TurnEvent| {};
        let compressed = conversation.compress(&mut display, stop).await;
        let after = conversation.messages().len();
        slot.touch(conversation.message_bytes());
        *seat = Some(conversation);
        compressed?;
        Ok(CompressedSession { before, after })
    }
}
