//! Reading messages: all that the model sees, a page for display, or those around one; and whether a session still has the
//! live rows that were read.

use futures::TryStreamExt as _;

use super::{Role, StoredMessage, message_columns};
use crate::{MessageId, SessionId, Store, StoreError, db::row};

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
        let mut rows = sqlx::query(self.sql(SQL))
            .bind(session.as_str())
            .fetch(self.readers());
        // One by one: a row takes several times the memory of its message, and a long conversation has many.
        let mut messages = Vec::new();
        while let Some(row) = rows.try_next().await.map_err(|error| self.error(error))? {
            let message = StoredMessage::read(&row).map_err(|error| self.error(error))?;
            messages.push(message);
        }
        Ok(messages)
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

const COUNT_ROWS: &str = "SELECT COUNT(*) AS count, MAX(m.id) AS last, SUM(m.id) AS sum FROM {messages} AS m \
    WHERE m.session_id = ?1 AND m.active = 1";

/// The live rows of a session, as far as is needed to see that they are others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ActiveRows {
    count: i64,
    /// Ids are never used again.
    last: i64,
    sum: i64,
}

impl ActiveRows {
    /// Those of messages that were read.
    pub fn from_messages(messages: &[StoredMessage]) -> Self {
        let mut rows = Self::default();
        rows.add(messages.iter().map(|message| message.id));
        rows
    }

    /// Adds rows that were stored since.
    pub fn add(&mut self, ids: impl IntoIterator<Item = MessageId>) {
        for MessageId(id) in ids {
            self.count += 1;
            self.last = self.last.max(id);
            self.sum = self.sum.wrapping_add(id);
        }
    }
}

impl Store {
    /// The live rows that a session has now. Read from an index alone.
    pub async fn active_rows(&self, session: &SessionId) -> Result<ActiveRows, StoreError> {
        let found = async {
            let found = sqlx::query(self.sql(COUNT_ROWS))
                .bind(session.as_str())
                .fetch_one(self.readers())
                .await?;
            Ok(ActiveRows {
                count: row::integer(&found, "count")?,
                last: row::integer(&found, "last")?,
                sum: row::integer(&found, "sum")?,
            })
        };
        found.await.map_err(|error| self.error(error))
    }
}

#[cfg(test)]
mod tests {
    use hermes_config::Home;
    use sqlx::{AssertSqlSafe, SqlSafeStr};

    use super::*;
    use crate::{Access, NewMessage, NewSession};

    async fn open_store() -> (tempfile::TempDir, Store) {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::at(directory.path());
        let store = Store::open(&home, Access::ReadWrite).await.unwrap();
        (directory, store)
    }

    #[tokio::test]
    async fn rows_that_were_counted_are_those_of_the_store_until_something_changes() {
        let (_directory, store) = open_store().await;
        let session = SessionId::parse("s").unwrap();
        let row = NewSession::new(session.clone(), "telegram");
        store.create_session(&row).await.unwrap();
        let mut counted = ActiveRows::default();
        assert_eq!(store.active_rows(&session).await.unwrap(), counted);
        for text in ["one", "two"] {
            let message = NewMessage::new(Role::User, text);
            counted.add([store.append(&session, &message).await.unwrap()]);
        }
        assert_eq!(store.active_rows(&session).await.unwrap(), counted);
        let read = store.active_messages(&session).await.unwrap();
        assert_eq!(ActiveRows::from_messages(&read), counted);
        store.rewind_last_turn(&session).await.unwrap();
        assert_ne!(store.active_rows(&session).await.unwrap(), counted);
        let again = NewMessage::new(Role::User, "two");
        store.append(&session, &again).await.unwrap();
        assert_ne!(store.active_rows(&session).await.unwrap(), counted);
        store.close().await;
    }

    #[tokio::test]
    async fn live_rows_are_counted_from_an_index_alone() {
        let (_directory, store) = open_store().await;
        let explained = format!("EXPLAIN QUERY PLAN {}", store.sql(COUNT_ROWS).as_str());
        let rows = sqlx::query(AssertSqlSafe(explained).into_sql_str())
            .fetch_all(store.readers())
            .await
            .unwrap();
        let detail = |found| row::required_text(found, "detail").unwrap();
        let steps: Vec<String> = rows.iter().map(detail).collect();
        let index = "SEARCH m USING COVERING INDEX idx_messages_session_active";
        assert!(
            steps.iter().all(|step| step.starts_with(index)),
            "{steps:?}"
        );
        store.close().await;
    }
}
