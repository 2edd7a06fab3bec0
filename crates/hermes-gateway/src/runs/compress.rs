//! Summarizing the conversation of a session between two turns.

use hermes_agent::{
    approval::DenyAllApprover,
    conversation::{Consent, Conversation, ConversationError, ConversationSetup, SessionReference},
    turn::TurnEvent,
};
use hermes_store::SessionId;
use tokio_util::sync::CancellationToken;

use super::Runs;

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
