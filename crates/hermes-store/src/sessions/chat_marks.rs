//! What shows which chats have changed since they were last read, at the cost of one row: a list of a thousand chats is
//! asked for after every message, and one of them has changed.

use std::collections::HashSet;

use super::OwnPlatform;
use crate::{MessageId, SessionId, Store, StoreError, db::row};

/// After more messages than this it is cheaper to read all chats.
const MAX_MESSAGES: i64 = 10_000;
/// Maximum number of listed conversations without a platform, newest first.
const MAX_OWN_SESSIONS: i64 = 1_000;

/// A state of all chats that are in an open session, and of the conversations without a platform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatMarks {
    pub chats: Vec<ChatMark>,
    pub last_message: MessageId,
    /// The sessions with messages that came later than the one asked for. None if that cannot be told.
    pub grown: Option<HashSet<String>>,
}

/// A chat as it was. While it is equal, nothing has changed but perhaps the time of its last message.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ChatMark(String);

impl ChatMark {
    pub fn session(&self) -> Option<SessionId> {
        let columns: Vec<serde_json::Value> = serde_json::from_str(&self.0).ok()?;
        let id = columns.into_iter().next()?;
        Some(SessionId::from_stored(id.as_str()?.to_owned()))
    }
}

/// What a mark is made of. The counts change with the messages.
macro_rules! mark_columns {
    () => {
        "s.id, s.source, s.user_id, s.session_key, s.chat_id, s.chat_type, s.thread_id, s.display_name, \
         s.origin_json, s.title, s.started_at, s.input_tokens, s.output_tokens, s.message_count, s.tool_call_count"
    };
}

/// A mark has no line break: JSON writes it otherwise. Text that is none would be an error.
macro_rules! marks {
    () => {
        "group_concat(json_array(CAST(c.id AS TEXT), CAST(c.source AS TEXT), CAST(c.user_id AS TEXT), \
         CAST(c.session_key AS TEXT), CAST(c.chat_id AS TEXT), CAST(c.chat_type AS TEXT), \
         CAST(c.thread_id AS TEXT), CAST(c.display_name AS TEXT), CAST(c.origin_json AS TEXT), \
         CAST(c.title AS TEXT), c.started_at, c.input_tokens, c.output_tokens, c.message_count, \
         c.tool_call_count), char(10))"
    };
}

/// With `MAX`, the other columns are those of the row that has it: of the newest session of each chat.
const MARKS: &str = concat!(
    "SELECT (SELECT MAX(m.id) FROM {messages} AS m) AS last_message, \
     (SELECT json_group_array(m.session_id) FROM {messages} AS m \
     WHERE m.id > MAX(?1, (SELECT MAX(e.id) FROM {messages} AS e) - ?2)) AS grown, \
     (SELECT ",
    marks!(),
    " FROM (SELECT ",
    mark_columns!(),
    ", s.ended_at, MAX(s.started_at) FROM {sessions} AS s WHERE s.session_key IS NOT NULL \
     GROUP BY s.session_key) AS c WHERE c.ended_at IS NULL) AS chats"
);

/// A session that was continued in another one, or works for one, is not a conversation of its own.
const OWN: &str = concat!(
    "SELECT ",
    marks!(),
    " AS chats FROM (SELECT ",
    mark_columns!(),
    " FROM {sessions} AS s WHERE s.session_key IS NULL \
     AND s.source IN (SELECT value FROM json_each(?1)) AND COALESCE(s.end_reason, '') != 'compression' \
     AND CASE WHEN json_valid(s.model_config) \
     THEN json_extract(s.model_config, '$._delegate_from') END IS NULL \
     ORDER BY s.started_at DESC LIMIT ?2) AS c"
);

impl Store {
    /// How all chats are now, and which have grown since a message that was the last one.
    pub async fn chat_marks(
        &self,
        since: Option<MessageId>,
        own: &[OwnPlatform],
    ) -> Result<ChatMarks, StoreError> {
        let marks = async {
            let found = sqlx::query(self.sql(MARKS))
                .bind(since.map_or(i64::MAX, |id| id.0))
                .bind(MAX_MESSAGES)
                .fetch_one(self.readers())
                .await?;
            let last = row::integer(&found, "last_message")?;
            let is_near = |since: &MessageId| (0..=MAX_MESSAGES).contains(&(last - since.0));
            let grown = match since.filter(is_near) {
                Some(_) => parse_sessions(&row::required_text(&found, "grown")?),
                None => None,
            };
            let mut chats = parse_marks(&row::required_text(&found, "chats")?);
            if !own.is_empty() {
                let found = sqlx::query(self.sql(OWN))
                    .bind(OwnPlatform::sources_of(own))
                    .bind(MAX_OWN_SESSIONS)
                    .fetch_one(self.readers())
                    .await?;
                chats.append(&mut parse_marks(&row::required_text(&found, "chats")?));
            }
            Ok(ChatMarks {
                chats,
                last_message: MessageId(last),
                grown,
            })
        };
        marks.await.map_err(|error| self.error(error))
    }
}

fn parse_marks(text: &str) -> Vec<ChatMark> {
    text.lines().map(|line| ChatMark(line.to_owned())).collect()
}

/// None if there is an id that is not text.
fn parse_sessions(list: &str) -> Option<HashSet<String>> {
    serde_json::from_str(list).ok()
}

#[cfg(test)]
mod tests {
    use hermes_config::Home;
    use sqlx::{AssertSqlSafe, SqlSafeStr};

    use super::*;
    use crate::Access;

    #[tokio::test]
    async fn no_row_of_a_session_is_read_for_a_mark() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(&Home::at(directory.path()), Access::ReadWrite).await;
        let store = store.unwrap();
        let explained = format!("EXPLAIN QUERY PLAN {}", store.sql(MARKS).as_str());
        let rows = sqlx::query(AssertSqlSafe(explained).into_sql_str())
            .fetch_all(store.readers())
            .await
            .unwrap();
        let steps: Vec<String> = rows
            .iter()
            .map(|found| row::required_text(found, "detail").unwrap())
            .filter(|step: &String| step.contains(" s "))
            .collect();
        let index = "USING COVERING INDEX idx_sessions_chat_marks";
        assert!(
            !steps.is_empty() && steps.iter().all(|step| step.contains(index)),
            "{steps:?}"
        );
        store.close().await;
    }
}
