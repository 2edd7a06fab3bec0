//! Messages of chats, found by the platform's ids of them.

use super::{MessageQuery, MessageRows, Role, message_columns};
use crate::{MessageId, SessionId, SessionKey, Store, StoreError};

/// What is stored of the turn that a message of a chat began.
#[derive(Debug, Clone, PartialEq)]
pub struct PlatformTurn {
    /// The user's message.
    pub prompt: MessageId,
    /// The answer, if the turn was complete.
    pub answer: Option<String>,
    /// Whether another turn began since.
    pub has_later: bool,
}

/// More messages in a turn than any has: the limit of a read.
const MAX_TURN_MESSAGES: u32 = 10_000;

impl Store {
    /// The turn that the message with this id began, if it is stored.
    pub async fn platform_turn(
        &self,
        session: &SessionId,
        platform_message: &str,
    ) -> Result<Option<PlatformTurn>, StoreError> {
        const SQL: &str = concat!(
            "SELECT ",
            message_columns!(),
            " FROM {messages} AS m WHERE m.session_id = ?1 AND m.platform_message_id = ?2 AND m.role = 'user' \
             AND m.active = 1 ORDER BY m.id DESC LIMIT 1"
        );
        let rows = sqlx::query(self.sql(SQL))
            .bind(session.as_str())
            .bind(platform_message)
            .fetch_all(self.readers())
            .await;
        let Some(prompt) = self.messages(rows)?.pop() else {
            return Ok(None);
        };
        let query = MessageQuery {
            rows: MessageRows::Active,
            roles: Vec::new(),
            before: None,
            after: Some(prompt.id),
            limit: MAX_TURN_MESSAGES,
        };
        let mut turn = PlatformTurn {
            prompt: prompt.id,
            answer: None,
            has_later: false,
        };
        for message in self.read_messages(session, &query).await? {
            match message.body.role {
                Role::User if !message.body.observed => {
                    turn.has_later = true;
                    break;
                }
                Role::Assistant => {
                    let is_final = message.body.tool_calls.is_none()
                        && message.body.finish_reason.as_deref() != Some("interrupted");
                    let content = message.body.content.filter(|_| is_final);
                    turn.answer = content.map(|content| content.text().into_owned());
                }
                _ => turn.answer = None,
            }
        }
        Ok(Some(turn))
    }

    /// Takes back an answer that was cut off, so that the turn can go on before it.
    pub async fn rewind_partial_answer(
        &self,
        session: &SessionId,
        prompt: MessageId,
    ) -> Result<(), StoreError> {
        let changed = self.execute(|| {
            sqlx::query(
                "UPDATE messages SET active = 0, compacted = 0 WHERE session_id = ?1 AND id > ?2 AND active = 1 \
                 AND role = 'assistant' AND tool_calls IS NULL AND finish_reason = 'interrupted'",
            )
            .bind(session.as_str())
            .bind(prompt.0)
        });
        changed.await.map(drop)
    }

    /// The last message of a session, if it is an answer of the model with this text.
    pub async fn last_answer(
        &self,
        session: &SessionId,
        text: &str,
    ) -> Result<Option<MessageId>, StoreError> {
        const SQL: &str = concat!(
            "SELECT ",
            message_columns!(),
            " FROM {messages} AS m WHERE m.session_id = ?1 AND m.active = 1 ORDER BY m.id DESC LIMIT 1"
        );
        let rows = sqlx::query(self.sql(SQL))
            .bind(session.as_str())
            .fetch_all(self.readers())
            .await;
        let last = self.messages(rows)?.pop().filter(|last| {
            let content = last.body.content.as_ref();
            last.body.role == Role::Assistant
                && content.is_some_and(|content| content.text() == text)
        });
        Ok(last.map(|last| last.id))
    }

    /// Records the platform's id of a message that was sent.
    pub async fn set_platform_message(
        &self,
        message: MessageId,
        platform_message: &str,
    ) -> Result<(), StoreError> {
        let changed = self.execute(|| {
            sqlx::query("UPDATE messages SET platform_message_id = ?2 WHERE id = ?1")
                .bind(message.0)
                .bind(platform_message)
        });
        changed.await.map(drop)
    }

    /// The text of a message that the bot sent to a chat, by the platform's id of it.
    pub async fn sent_message(
        &self,
        source: &str,
        chat_id: &str,
        platform_message: &str,
    ) -> Result<Option<String>, StoreError> {
        const SQL: &str = concat!(
            "SELECT ",
            message_columns!(),
            " FROM {sessions} AS s JOIN {messages} AS m ON m.session_id = s.id WHERE s.source = ?1 \
             AND s.chat_id = ?2 AND m.platform_message_id = ?3 AND m.role = 'assistant' ORDER BY m.id DESC LIMIT 1"
        );
        let rows = sqlx::query(self.sql(SQL))
            .bind(source)
            .bind(chat_id)
            .bind(platform_message)
            .fetch_all(self.readers())
            .await;
        let found = self.messages(rows)?.pop();
        Ok(found.map(|found| {
            let content = found.body.content.as_ref();
            content.map_or_else(String::new, |content| content.text().into_owned())
        }))
    }

    /// What was said last in a channel outside of threads and not to the bot, oldest first.
    pub async fn overheard_in_channel(
        &self,
        source: &str,
        chat_id: &str,
        most: u32,
    ) -> Result<Vec<String>, StoreError> {
        const SQL: &str = concat!(
            "SELECT ",
            message_columns!(),
            " FROM {sessions} AS s JOIN {messages} AS m ON m.session_id = s.id WHERE s.source = ?1 \
             AND s.chat_id = ?2 AND s.thread_id IS NULL AND m.observed = 1 AND m.active = 1 \
             ORDER BY m.id DESC LIMIT ?3"
        );
        let rows = sqlx::query(self.sql(SQL))
            .bind(source)
            .bind(chat_id)
            .bind(most)
            .fetch_all(self.readers())
            .await;
        let found = self.messages(rows)?.into_iter().rev();
        let texts = found.filter_map(|found| Some(found.body.content?.text().into_owned()));
        Ok(texts.collect())
    }

    /// Whether the bot took part in a chat: something was said to it, or by it.
    pub async fn has_exchange(&self, session_key: &SessionKey) -> Result<bool, StoreError> {
        const SQL: &str = "SELECT EXISTS (SELECT 1 FROM {sessions} AS s JOIN {messages} AS m ON m.session_id = s.id \
             WHERE s.session_key = ?1 AND COALESCE(m.observed, 0) = 0)";
        let found = sqlx::query_scalar(self.sql(SQL))
            .bind(session_key.as_str())
            .fetch_one(self.readers())
            .await;
        let found: i64 = found.map_err(|error| self.error(error))?;
        Ok(found != 0)
    }
}
