//! Reading messages: all that the model sees, a page for display, or those around one.

use super::{Role, StoredMessage, message_columns};
use crate::{MessageId, SessionId, Store, StoreError};

/// Which rows of a session count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageRows {
    /// What the model sees.
    Active,
    /// That and what was summed up since.
    NotRewound,
    /// What was taken back, too.
    All,
}

/// A page of a session. The default is its 50 newest live messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageQuery {
    pub rows: MessageRows,
    /// Only these roles; all, if empty.
    pub roles: Vec<Role>,
    pub before: Option<MessageId>,
    pub after: Option<MessageId>,
    /// At most so many. The newest of what is left, or the oldest if `after` is given.
    pub limit: u32,
}

impl Default for MessageQuery {
    fn default() -> Self {
        Self {
            rows: MessageRows::Active,
            roles: Vec::new(),
            before: None,
            after: None,
            limit: 50,
        }
    }
}

/// A message and its neighbours.
#[derive(Debug, Clone, PartialEq)]
pub struct MessageWindow {
    /// In order, the message itself among them.
    pub messages: Vec<StoredMessage>,
    /// Whether there is more before.
    pub more_before: bool,
    /// Whether there is more after.
    pub more_after: bool,
}

/// Ids are picked from the index first, so that the long rows read are those returned.
macro_rules! page_sql {
    ($direction:literal) => {
        concat!(
            "SELECT ",
            message_columns!(),
            " FROM {messages} AS m WHERE m.id IN (\
             SELECT p.id FROM {messages} AS p WHERE p.session_id = ?1 \
             AND (p.active = 1 OR (?2 >= 1 AND p.compacted = 1) OR ?2 = 2) \
             AND (?3 = '[]' OR p.role IN (SELECT value FROM json_each(?3))) \
             AND (?4 IS NULL OR p.id < ?4) AND (?5 IS NULL OR p.id > ?5) \
             ORDER BY p.id ",
            $direction,
            " LIMIT ?6) ORDER BY m.id"
        )
    };
}

impl Store {
    /// The live messages of a session, in order: what the model is given.
    pub async fn active_messages(
        &self,
        session: &SessionId,
    ) -> Result<Vec<StoredMessage>, StoreError> {
        const SQL: &str = concat!(
            "SELECT ",
            message_columns!(),
            " FROM {messages} AS m WHERE m.session_id = ?1 AND m.active = 1 ORDER BY m.id"
        );
        let rows = sqlx::query(self.sql(SQL))
            .bind(session.as_str())
            .fetch_all(self.readers())
            .await;
        self.messages(rows)
    }

    /// A page of a session, in order.
    pub async fn read_messages(
        &self,
        session: &SessionId,
        query: &MessageQuery,
    ) -> Result<Vec<StoredMessage>, StoreError> {
        let sql = if query.after.is_some() {
            page_sql!("ASC")
        } else {
            page_sql!("DESC")
        };
        let roles: Vec<_> = query.roles.iter().map(Role::as_str).collect();
        let rows = sqlx::query(self.sql(sql))
            .bind(session.as_str())
            .bind(match query.rows {
                MessageRows::Active => 0,
                MessageRows::NotRewound => 1,
                MessageRows::All => 2,
            })
            .bind(serde_json::json!(roles).to_string())
            .bind(query.before.map(|id| id.0))
            .bind(query.after.map(|id| id.0))
            .bind(query.limit)
            .fetch_all(self.readers())
            .await;
        self.messages(rows)
    }

    /// One message of a session, whatever its state.
    pub async fn message(
        &self,
        session: &SessionId,
        id: MessageId,
    ) -> Result<Option<StoredMessage>, StoreError> {
        const SQL: &str = concat!(
            "SELECT ",
            message_columns!(),
            " FROM {messages} AS m WHERE m.id = ?2 AND m.session_id = ?1"
        );
        let rows = sqlx::query(self.sql(SQL))
            .bind(session.as_str())
            .bind(id.0)
            .fetch_all(self.readers())
            .await;
        Ok(self.messages(rows)?.pop())
    }

    /// A message with up to `reach` others on each side.
    pub async fn messages_around(
        &self,
        session: &SessionId,
        id: MessageId,
        reach: u32,
    ) -> Result<MessageWindow, StoreError> {
        let anchor = self
            .message(session, id)
            .await?
            .ok_or_else(|| StoreError::NoSuchMessage {
                session: session.clone(),
                id,
            })?;
        // One more than wanted on each side tells whether there is more.
        let page = |before, after| MessageQuery {
            rows: MessageRows::NotRewound,
            roles: Vec::new(),
            before,
            after,
            limit: reach.saturating_add(1),
        };
        let mut before = self.read_messages(session, &page(Some(id), None)).await?;
        let mut after = self.read_messages(session, &page(None, Some(id))).await?;
        let reach = usize::try_from(reach).unwrap_or(usize::MAX);
        let more_before = before.len() > reach;
        if more_before {
            before.remove(0);
        }
        let more_after = after.len() > reach;
        after.truncate(reach);
        before.push(anchor);
        before.append(&mut after);
        Ok(MessageWindow {
            messages: before,
            more_before,
            more_after,
        })
    }

    /// How many live messages a session has.
    pub async fn count_active(&self, session: &SessionId) -> Result<i64, StoreError> {
        const SQL: &str =
            "SELECT COUNT(*) FROM {messages} AS m WHERE m.session_id = ?1 AND m.active = 1";
        sqlx::query_scalar(self.sql(SQL))
            .bind(session.as_str())
            .fetch_one(self.readers())
            .await
            .map_err(|error| self.error(error))
    }

    pub(super) fn messages(
        &self,
        rows: Result<Vec<sqlx::sqlite::SqliteRow>, sqlx::Error>,
    ) -> Result<Vec<StoredMessage>, StoreError> {
        rows.and_then(|rows| rows.iter().map(StoredMessage::read).collect())
            .map_err(|error| self.error(error))
    }
}
