//! Taking turns back. Their rows stay, out of sight.

use super::{StoredMessage, message_columns};
use crate::{MessageId, SessionId, Store, StoreError};

#[derive(Debug, Clone, PartialEq)]
pub struct RewindResult {
    /// The user's message the turn began with, for another try.
    pub prompt: StoredMessage,
    /// How many rows went out of sight.
    pub rows: u64,
}

impl Store {
    /// Takes back the last turn: the user's last message and everything after it.
    pub async fn rewind_last_turn(&self, session: &SessionId) -> Result<RewindResult, StoreError> {
        self.rewind(session, None).await
    }

    /// Takes back that message of the user and everything after it.
    pub async fn rewind_to(
        &self,
        session: &SessionId,
        id: MessageId,
    ) -> Result<RewindResult, StoreError> {
        self.rewind(session, Some(id)).await
    }

    async fn rewind(
        &self,
        session: &SessionId,
        to: Option<MessageId>,
    ) -> Result<RewindResult, StoreError> {
        // What was only overheard began no turn.
        const PROMPT: &str = concat!(
            "SELECT ",
            message_columns!(),
            " FROM messages AS m WHERE m.session_id = ?1 AND m.active = 1 AND m.role = 'user' \
             AND COALESCE(m.observed, 0) = 0 AND (?2 IS NULL OR m.id = ?2) ORDER BY m.id DESC LIMIT 1"
        );
        let mut write = self.begin().await?;
        let rows = sqlx::query(PROMPT)
            .bind(session.as_str())
            .bind(to.map(|id| id.0))
            .fetch_all(&mut *write)
            .await;
        let prompt = self.messages(rows)?.pop().ok_or_else(|| match to {
            Some(id) => StoreError::NoSuchMessage {
                session: session.clone(),
                id,
            },
            None => StoreError::NothingToRewind {
                id: session.clone(),
            },
        })?;
        let rows = sqlx::query(
            "UPDATE messages SET active = 0, compacted = 0 WHERE session_id = ?1 AND id >= ?2 AND active = 1",
        )
        .bind(session.as_str())
        .bind(prompt.id.0)
        .execute(&mut *write)
        .await
        .map_err(|error| self.error(error))?
        .rows_affected();
        sqlx::query(
            "UPDATE sessions SET rewind_count = COALESCE(rewind_count, 0) + 1 WHERE id = ?1",
        )
        .bind(session.as_str())
        .execute(&mut *write)
        .await
        .map_err(|error| self.error(error))?;
        write.commit().await?;
        Ok(RewindResult { prompt, rows })
    }
}
