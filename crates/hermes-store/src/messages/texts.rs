//! Text messages of people and the model in a session: the newest, and their number. Messages without text, such as
//! those that only call tools, do not count.

use sqlx::sqlite::SqliteRow;

use super::{Content, Role};
use crate::{MessageId, SessionId, Store, StoreError, db::row};

/// All in one row, since a row costs more than what is in it.
const ACTIVE_IDS: &str = "SELECT group_concat(m.id) AS ids FROM {messages} AS m \
    WHERE m.session_id = ?1 AND m.active = 1";

/// Those of some rows that may say something.
macro_rules! said_rows {
    () => {
        " FROM {messages} AS m WHERE m.id IN (SELECT value FROM json_each(?1)) \
         AND m.role IN ('user', 'assistant') AND m.content != ''"
    };
}

/// The newest text messages of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct RecentTexts {
    /// The newest messages, in order.
    pub messages: Vec<TextMessage>,
    /// How many there are in the session.
    pub total: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub struct TextMessage {
    pub id: MessageId,
    pub role: Role,
    /// Never empty.
    pub text: String,
    /// Seconds since 1970.
    pub timestamp: f64,
}

impl Store {
    /// The newest messages of people and the model that the model sees and that have a text.
    pub async fn recent_texts(
        &self,
        session: &SessionId,
        limit: usize,
    ) -> Result<RecentTexts, StoreError> {
        let said = async {
            let ids = self.active_ids(session).await?;
            let total = self.count_texts(session, &ids).await?;
            let messages = self.newest_texts(&ids, total, limit).await?;
            Ok(RecentTexts { messages, total })
        };
        said.await.map_err(|error| self.error(error))
    }

    /// The ids of all live rows, in order. An index has them side by side.
    async fn active_ids(&self, session: &SessionId) -> Result<Vec<i64>, sqlx::Error> {
        let found = sqlx::query(self.sql(ACTIVE_IDS))
            .bind(session.as_str())
            .fetch_one(self.readers())
            .await?;
        let mut ids = parse_numbers(&row::required_text(&found, "ids")?);
        ids.sort_unstable();
        Ok(ids)
    }

    /// How many of a session's live rows say something. Those that were counted before are not read.
    async fn count_texts(&self, session: &SessionId, ids: &[i64]) -> Result<usize, sqlx::Error> {
        let known = self.text_counts().get(session, ids);
        let (rows, said) = known.map_or((0, 0), |known| (known.rows, known.texts));
        let new = ids.get(rows..).unwrap_or_default();
        if new.is_empty() {
            return Ok(said);
        }
        let said = said + self.count_uncached(new).await?;
        self.text_counts().insert(session, ids, said);
        Ok(said)
    }

    async fn count_uncached(&self, ids: &[i64]) -> Result<usize, sqlx::Error> {
        // An id is negative where the text begins with NUL, as that of parts does: those may have no text.
        const SQL: &str = concat!(
            "SELECT group_concat(CASE WHEN m.content < char(1) THEN -m.id ELSE m.id END) AS ids",
            said_rows!()
        );
        let found = sqlx::query(self.sql(SQL))
            .bind(serde_json::json!(ids).to_string())
            .fetch_one(self.readers())
            .await?;
        let candidates = parse_numbers(&row::required_text(&found, "ids")?);
        let structured = candidates.iter().filter(|id| **id < 0);
        let structured: Vec<i64> = structured.map(|id| id.abs()).collect();
        if structured.is_empty() {
            return Ok(candidates.len());
        }
        let with_text = self.read_texts(&structured).await?.len();
        Ok(candidates.len() - structured.len() + with_text)
    }

    /// So many of the newest of these rows that say something, in order. `total` of all do.
    async fn newest_texts(
        &self,
        ids: &[i64],
        total: usize,
        limit: usize,
    ) -> Result<Vec<TextMessage>, sqlx::Error> {
        let limit = limit.min(total);
        let mut messages = Vec::new();
        let mut rest = ids;
        while messages.len() < limit && !rest.is_empty() {
            let missing = limit - messages.len();
            let likely = likely_rows(missing, ids.len(), total);
            let (earlier, last) = rest.split_at(rest.len().saturating_sub(likely));
            let mut found = self.read_texts(last).await?;
            found.drain(..found.len().saturating_sub(missing));
            found.append(&mut messages);
            messages = found;
            rest = earlier;
        }
        Ok(messages)
    }

    /// Those of these rows that have a text, in order.
    async fn read_texts(&self, ids: &[i64]) -> Result<Vec<TextMessage>, sqlx::Error> {
        const SQL: &str = concat!(
            "SELECT m.id, m.role, m.content, m.timestamp",
            said_rows!(),
            " ORDER BY m.id"
        );
        let rows = sqlx::query(self.sql(SQL))
            .bind(serde_json::json!(ids).to_string())
            .fetch_all(self.readers())
            .await?;
        let mut messages = Vec::with_capacity(rows.len());
        for found in &rows {
            let message = TextMessage::read(found)?;
            if !message.text.is_empty() {
                messages.push(message);
            }
        }
        Ok(messages)
    }
}

impl TextMessage {
    fn read(found: &SqliteRow) -> Result<Self, sqlx::Error> {
        let content = Content::decode(row::required_text(found, "content")?);
        Ok(Self {
            id: MessageId(row::integer(found, "id")?),
            role: row::required_text(found, "role")?.into(),
            text: match content {
                Content::Text(text) => text,
                parts @ Content::Parts(_) => parts.text().into_owned(),
            },
            timestamp: row::real(found, "timestamp")?.unwrap_or_default(),
        })
    }
}

/// How many rows to look at for so many that say something. Calls and results of tools are in between, more of them at
/// some times than at others; where there are none, no row is read in vain.
fn likely_rows(missing: usize, rows: usize, total: usize) -> usize {
    if rows == total {
        return missing;
    }
    let in_proportion = missing.saturating_mul(rows).div_ceil(total.max(1));
    in_proportion + in_proportion / 4 + 1
}

/// The numbers of a list as SQLite makes them.
fn parse_numbers(list: &str) -> Vec<i64> {
    list.split(',')
        .filter_map(|number| number.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use hermes_config::Home;
    use sqlx::{AssertSqlSafe, SqlSafeStr};

    use super::*;
    use crate::Access;

    #[test]
    fn as_many_rows_are_read_as_are_likely_to_be_needed() {
        assert_eq!(likely_rows(50, 1_000, 1_000), 50);
        assert_eq!(likely_rows(50, 1_000, 500), 126);
        assert_eq!(likely_rows(1, 10, 1), 13);
    }

    #[tokio::test]
    async fn which_rows_are_live_is_read_from_an_index_alone() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(&Home::at(directory.path()), Access::ReadWrite).await;
        let store = store.unwrap();
        let statement = store.sql(ACTIVE_IDS);
        let explained = format!("EXPLAIN QUERY PLAN {}", statement.as_str());
        let rows = sqlx::query(AssertSqlSafe(explained).into_sql_str())
            .fetch_all(store.readers())
            .await
            .unwrap();
        let steps: Vec<String> = rows
            .iter()
            .map(|found| row::required_text(found, "detail").unwrap())
            .collect();
        let index = "SEARCH m USING COVERING INDEX idx_messages_session_active";
        assert!(
            steps.iter().all(|step| step.starts_with(index)),
            "{steps:?}"
        );
        store.close().await;
    }
}
