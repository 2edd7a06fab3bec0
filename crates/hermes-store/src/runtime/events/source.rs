//! What the log reads from `state.db`. All of one look comes from one snapshot, and every statement goes by an index:
//! the store may have a million messages.

use std::collections::HashMap;

use sqlx::{Connection, Sqlite, Transaction, sqlite::SqliteRow};

use super::{
    marks::SessionMark,
    rules::{NewRow, RowRepeat},
};
use crate::{
    Content, Store,
    db::{self, SqliteErrorKind, row},
    messages::is_structured,
    watch::StateReader,
};

/// What is kept of a message's text.
const CONTENT_LENGTH: usize = 500;

const LAST_ROW_AND: &str = "SELECT m.id, m.session_id, m.timestamp FROM {messages} AS m \
    WHERE m.id IN (?1, (SELECT MAX(e.id) FROM {messages} AS e)) ORDER BY m.id DESC";

/// The same without what lies behind a row's text, which may be damaged.
const LAST_ROW_AND_WITHOUT_TIME: &str = "SELECT m.id, m.session_id, NULL AS timestamp FROM {messages} AS m \
    WHERE m.id IN (?1, (SELECT MAX(e.id) FROM {messages} AS e)) ORDER BY m.id DESC";

const ROW: &str = "SELECT m.id, m.session_id, m.timestamp FROM {messages} AS m WHERE m.id = ?1";

const LAST_ROW_UNTIL: &str = "SELECT MAX(m.id) AS id FROM {messages} AS m WHERE m.timestamp <= ?1";

/// The latest live row: a deletion of the history would take it along.
const MARKS: &str = "SELECT s.id, \
    (SELECT m.id FROM {messages} AS m WHERE m.session_id = s.id AND m.active = 1 \
    ORDER BY m.timestamp DESC LIMIT 1) AS last_id, \
    (SELECT MAX(m.timestamp) FROM {messages} AS m WHERE m.session_id = s.id) AS max_timestamp \
    FROM {sessions} AS s WHERE s.session_key IS NOT NULL";

/// The key a session is known by. One without has a key made of its id, where such are logged, as
/// [`OwnPlatform`](crate::OwnPlatform) makes it.
macro_rules! key {
    () => {
        "COALESCE(s.session_key, CASE WHEN ?3 THEN CASE s.source WHEN 'cli' THEN 'cli:' WHEN 'tui' THEN 'cli:' \
         WHEN 'api_server' THEN 'api:' WHEN 'cron' THEN 'cron:' END || s.id END)"
    };
}

/// Only what lies at the beginning of a row is read: one with a damaged text is still found.
const NEW_ROWS: &str = concat!(
    "SELECT m.id, m.session_id, ",
    key!(),
    " AS session_key, s.parent_session_id IS NOT NULL AS has_parent \
     FROM {messages} AS m CROSS JOIN {sessions} AS s \
     WHERE m.id > ?1 AND s.id = m.session_id AND ",
    key!(),
    " IS NOT NULL ORDER BY m.id"
);

const NEW_ROWS_OF_SESSION: &str = concat!(
    "SELECT m.id, m.session_id, ",
    key!(),
    " AS session_key, s.parent_session_id IS NOT NULL AS has_parent \
     FROM {sessions} AS s CROSS JOIN {messages} AS m WHERE s.id = ?1 AND ",
    key!(),
    " IS NOT NULL AND m.session_id = s.id AND m.id > ?2 ORDER BY m.id"
);

const EXAMINE: &str = "SELECT n.id, n.role, n.timestamp, n.active, n.compacted, \
    n.content IS NOT NULL AND n.content != '' AS has_content, \
    (SELECT MIN(c.id) FROM json_each(?2) AS l CROSS JOIN {messages} AS c \
    WHERE c.session_id = l.value AND c.timestamp = n.timestamp AND c.id < n.id \
    AND c.role = n.role AND c.content IS n.content) AS first, \
    EXISTS (SELECT 1 FROM json_each(?2) AS l CROSS JOIN {messages} AS c \
    WHERE c.session_id = l.value AND c.timestamp = n.timestamp AND c.id < n.id \
    AND c.role = n.role AND c.content IS n.content \
    AND (c.session_id != n.session_id OR c.active = 0)) AS replaces, \
    EXISTS (SELECT 1 FROM {messages} AS k WHERE k.id = ?3 AND k.session_id = n.session_id) AS is_marked_there \
    FROM json_each(?1) AS i CROSS JOIN {messages} AS n WHERE n.id = i.value ORDER BY n.id";

/// `UNION` ends even in a circle.
const LINEAGE: &str = "WITH RECURSIVE line(id) AS (SELECT ?1 UNION \
    SELECT s.parent_session_id FROM line CROSS JOIN {sessions} AS s \
    WHERE s.id = line.id AND s.parent_session_id IS NOT NULL) SELECT id FROM line";

/// A code point has four bytes at most, and no more than the beginning is wanted.
const MESSAGE: &str = "SELECT m.role, m.timestamp, substr(CAST(m.content AS BLOB), 1, 2000) AS beginning \
    FROM {messages} AS m WHERE m.id = ?1";

/// Why `state.db` could not be read.
#[derive(Debug)]
pub(super) struct StateReadError(pub(super) sqlx::Error);

impl From<sqlx::Error> for StateReadError {
    fn from(error: sqlx::Error) -> Self {
        Self(error)
    }
}

pub(super) struct StateSnapshot<'a> {
    store: &'a Store,
    read: Transaction<'a, Sqlite>,
    /// Whether conversations without a platform count.
    with_own: bool,
}

/// A row by which a state of the store is known.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct MessageRow {
    pub(super) id: i64,
    pub(super) session: String,
    /// None where it cannot be read.
    pub(super) timestamp: Option<f64>,
}

/// A session of a chat and its rows that were not there before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NewSessionRows {
    pub(super) session: String,
    pub(super) session_key: String,
    pub(super) has_parent: bool,
    pub(super) ids: Vec<i64>,
}

/// The rows of one session as the rules want them, and its next mark.
#[derive(Debug)]
pub(super) struct ExaminedRows {
    pub(super) rows: Vec<NewRow>,
    pub(super) mark: SessionMark,
}

/// A message as it is logged.
#[derive(Debug, PartialEq)]
pub(super) struct MessageText {
    pub(super) role: String,
    pub(super) content: String,
    pub(super) timestamp: f64,
}

impl<'a> StateSnapshot<'a> {
    pub(super) async fn begin(
        reader: &'a mut StateReader,
        with_own: bool,
    ) -> Result<Self, StateReadError> {
        let read = reader.connection.begin().await?;
        Ok(Self {
            store: &reader.store,
            read,
            with_own,
        })
    }

    /// The last row there is, and the one of that id.
    pub(super) async fn last_row_and(
        &mut self,
        id: i64,
    ) -> Result<(Option<MessageRow>, Option<MessageRow>), StateReadError> {
        let mut rows = sqlx::query(self.store.sql(LAST_ROW_AND))
            .bind(id)
            .fetch_all(&mut *self.read)
            .await;
        if let Err(error) = &rows
            && db::sqlite_error_kind(error) == Some(SqliteErrorKind::Corrupt)
        {
            rows = sqlx::query(self.store.sql(LAST_ROW_AND_WITHOUT_TIME))
                .bind(id)
                .fetch_all(&mut *self.read)
                .await;
        }
        let rows = rows?;
        let rows: Result<Vec<MessageRow>, StateReadError> =
            rows.iter().map(MessageRow::read).collect();
        let rows = rows?;
        let known = rows.iter().find(|row| row.id == id).cloned();
        Ok((rows.into_iter().next(), known))
    }

    async fn row(&mut self, id: i64) -> Result<Option<MessageRow>, StateReadError> {
        let found = sqlx::query(self.store.sql(ROW))
            .bind(id)
            .fetch_optional(&mut *self.read)
            .await?;
        found.as_ref().map(MessageRow::read).transpose()
    }

    /// The last row up to a time, in the order of ids.
    pub(super) async fn last_row_until(
        &mut self,
        timestamp: f64,
    ) -> Result<Option<MessageRow>, StateReadError> {
        let found = sqlx::query(self.store.sql(LAST_ROW_UNTIL))
            .bind(timestamp)
            .fetch_one(&mut *self.read)
            .await?;
        match row::optional_integer(&found, "id")? {
            Some(id) => self.row(id).await,
            None => Ok(None),
        }
    }

    /// The highest id ever given, where SQLite keeps that.
    pub(super) async fn highest_id(&mut self) -> Option<i64> {
        sqlx::query_scalar("SELECT seq FROM sqlite_sequence WHERE name = 'messages'")
            .fetch_optional(&mut *self.read)
            .await
            .ok()
            .flatten()
    }

    /// The marks of all sessions of chats up to a row.
    pub(super) async fn marks(&mut self) -> Result<Vec<(String, SessionMark)>, StateReadError> {
        let rows = sqlx::query(self.store.sql(MARKS))
            .fetch_all(&mut *self.read)
            .await?;
        let mut marks = Vec::new();
        for found in &rows {
            let last_id = row::optional_integer(found, "last_id")?;
            let max_timestamp = row::real(found, "max_timestamp")?;
            if let (Some(last_id), Some(max_timestamp)) = (last_id, max_timestamp) {
                let mark = SessionMark {
                    last_id,
                    max_timestamp,
                };
                marks.push((row::required_text(found, "id")?, mark));
            }
        }
        Ok(marks)
    }

    /// The sessions of chats with rows after that one.
    pub(super) async fn new_rows(
        &mut self,
        after: i64,
    ) -> Result<Vec<NewSessionRows>, StateReadError> {
        let rows = sqlx::query(self.store.sql(NEW_ROWS))
            .bind(after)
            .bind(None::<i64>)
            .bind(self.with_own)
            .fetch_all(&mut *self.read)
            .await?;
        group_by_session(&rows)
    }

    /// The same for one session that was left behind.
    pub(super) async fn new_rows_of_session(
        &mut self,
        session: &str,
        after: i64,
    ) -> Result<Option<NewSessionRows>, StateReadError> {
        let rows = sqlx::query(self.store.sql(NEW_ROWS_OF_SESSION))
            .bind(session)
            .bind(after)
            .bind(self.with_own)
            .fetch_all(&mut *self.read)
            .await?;
        Ok(group_by_session(&rows)?.pop())
    }

    /// The new rows of a session and what they repeat.
    pub(super) async fn examine(
        &mut self,
        fresh: &NewSessionRows,
        mark: Option<SessionMark>,
    ) -> Result<ExaminedRows, StateReadError> {
        let lineage = self.lineage(fresh).await?;
        let found = sqlx::query(self.store.sql(EXAMINE))
            .bind(serde_json::json!(fresh.ids).to_string())
            .bind(serde_json::json!(lineage).to_string())
            .bind(mark.map(|mark| mark.last_id))
            .fetch_all(&mut *self.read)
            .await?;
        let mut next = mark.unwrap_or(SessionMark {
            last_id: 0,
            max_timestamp: f64::MIN,
        });
        let mut is_live = false;
        let mut rows = Vec::with_capacity(found.len());
        for found in &found {
            let id = row::integer(found, "id")?;
            let timestamp = row::real(found, "timestamp")?.unwrap_or_default();
            let active = row::optional_integer(found, "active")?.unwrap_or(1) == 1;
            let is_kept = active || row::integer(found, "compacted")? == 1;
            let role = row::required_text(found, "role")?;
            let is_history_gone = row::integer(found, "is_marked_there")? == 0
                && mark.is_some_and(|mark| timestamp <= mark.max_timestamp);
            let first = row::optional_integer(found, "first")?;
            let repeats = match first {
                _ if is_history_gone => RowRepeat::Deleted,
                None => RowRepeat::Nothing,
                Some(_) if row::integer(found, "replaces")? != 0 => RowRepeat::Replaced,
                Some(_) => RowRepeat::Live,
            };
            next.max_timestamp = next.max_timestamp.max(timestamp);
            if active || !is_live {
                next.last_id = id;
                is_live = active;
            }
            rows.push(NewRow {
                id,
                first: first.unwrap_or(id),
                repeats,
                active,
                is_candidate: is_kept
                    && row::integer(found, "has_content")? != 0
                    && matches!(role.as_str(), "user" | "assistant"),
            });
        }
        Ok(ExaminedRows { rows, mark: next })
    }

    async fn lineage(&mut self, fresh: &NewSessionRows) -> Result<Vec<String>, StateReadError> {
        if !fresh.has_parent {
            return Ok(vec![fresh.session.clone()]);
        }
        let rows = sqlx::query(self.store.sql(LINEAGE))
            .bind(&fresh.session)
            .fetch_all(&mut *self.read)
            .await?;
        let ids: Result<_, sqlx::Error> = rows
            .iter()
            .map(|found| row::required_text(found, "id"))
            .collect();
        Ok(ids?)
    }

    /// A message as it is logged; none if its parts have no text.
    pub(super) async fn message(&mut self, id: i64) -> Result<Option<MessageText>, StateReadError> {
        let found = sqlx::query(self.store.sql(MESSAGE))
            .bind(id)
            .fetch_one(&mut *self.read)
            .await?;
        let beginning = row::required_text(&found, "beginning")?;
        let text = if is_structured(&beginning) {
            self.text_of_parts(id).await?
        } else {
            beginning
        };
        let content: String = text.chars().take(CONTENT_LENGTH).collect();
        if content.is_empty() {
            return Ok(None);
        }
        Ok(Some(MessageText {
            role: row::required_text(&found, "role")?,
            content,
            timestamp: row::real(&found, "timestamp")?.unwrap_or_default(),
        }))
    }

    async fn text_of_parts(&mut self, id: i64) -> Result<String, StateReadError> {
        let found = sqlx::query("SELECT content FROM messages WHERE id = ?1")
            .bind(id)
            .fetch_one(&mut *self.read)
            .await?;
        let stored = row::required_text(&found, "content")?;
        Ok(Content::decode(stored).text().into_owned())
    }
}

impl MessageRow {
    fn read(found: &SqliteRow) -> Result<Self, StateReadError> {
        Ok(Self {
            id: row::integer(found, "id")?,
            session: row::required_text(found, "session_id")?,
            timestamp: row::real(found, "timestamp")?,
        })
    }
}

/// Sorts rows by session; the sessions are in the order of their first rows.
fn group_by_session(rows: &[SqliteRow]) -> Result<Vec<NewSessionRows>, StateReadError> {
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut sessions: Vec<NewSessionRows> = Vec::new();
    for found in rows {
        let id = row::integer(found, "id")?;
        let session = row::required_text(found, "session_id")?;
        if let Some(&place) = places.get(&session) {
            sessions[place].ids.push(id);
            continue;
        }
        places.insert(session.clone(), sessions.len());
        sessions.push(NewSessionRows {
            session,
            session_key: row::required_text(found, "session_key")?,
            has_parent: row::integer(found, "has_parent")? != 0,
            ids: vec![id],
        });
    }
    Ok(sessions)
}

#[cfg(test)]
mod tests {
    use hermes_config::Home;
    use sqlx::{AssertSqlSafe, SqlSafeStr};

    use super::*;
    use crate::Access;

    #[tokio::test]
    async fn no_statement_of_a_look_goes_through_all_messages_or_sessions() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(&Home::at(directory.path()), Access::ReadWrite).await;
        let store = store.unwrap();
        for statement in [
            LAST_ROW_AND,
            LAST_ROW_AND_WITHOUT_TIME,
            ROW,
            NEW_ROWS,
            NEW_ROWS_OF_SESSION,
            EXAMINE,
            LINEAGE,
            MESSAGE,
        ] {
            let statement = store.sql(statement);
            let explained = format!("EXPLAIN QUERY PLAN {}", statement.as_str());
            let rows = sqlx::query(AssertSqlSafe(explained).into_sql_str())
                .fetch_all(store.readers())
                .await
                .unwrap();
            for found in &rows {
                let step = row::required_text(found, "detail").unwrap();
                let is_scan = ["m", "e", "n", "c", "k", "s"]
                    .iter()
                    .any(|table| step.split(" USING").next() == Some(&format!("SCAN {table}")));
                assert!(!is_scan, "{step}: {}", statement.as_str());
                if step.contains("SEARCH c ") {
                    assert!(step.contains("(session_id=? AND timestamp=?"), "{step}");
                }
            }
        }
        store.close().await;
    }
}
