//! Deleting a stored session, unless a turn goes on in it.

use hermes_store::{SessionId, StoreError};

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
