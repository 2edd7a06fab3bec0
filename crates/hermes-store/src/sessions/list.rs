//! Lists of sessions for people: newest first, with the first thing that was said.

use sqlx::sqlite::SqliteRow;

use super::{Session, session_columns};
use crate::{Content, Store, StoreError, db::row, messages::is_structured};

/// What to list. The default is everything a person would look for, 20 at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionQuery {
    /// Only these sources; all, if empty.
    pub sources: Vec<String>,
    /// None of these sources.
    pub excluded_sources: Vec<String>,
    /// Which kinds of rows.
    pub listing: SessionListing,
    /// By what they are ordered.
    pub order: SessionOrder,
    /// Maximum number.
    pub limit: u32,
    /// Number of entries to skip.
    pub offset: u32,
}

impl Default for SessionQuery {
    fn default() -> Self {
        Self {
            sources: Vec::new(),
            excluded_sources: Vec::new(),
            listing: SessionListing::Conversations,
            order: SessionOrder::Started,
            limit: 20,
            offset: 0,
        }
    }
}

/// Which rows are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionListing {
    /// One row per conversation: without those that worked for another, those that go on under another id, and
    /// those put away.
    Conversations,
    /// Every row.
    All,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionOrder {
    /// The last begun first.
    Started,
    /// The last used first.
    Active,
}

#[derive(Debug, Clone, PartialEq)]
pub struct SessionSummary {
    /// The row.
    pub session: Session,
    /// The beginning of the first thing the user said, on one line; empty if nothing was.
    pub preview: String,
    /// When the last message was written, or the session began.
    pub last_active: f64,
}

const PREVIEW_LENGTH: usize = 60;

/// The ways of ordering, as one statement each.
macro_rules! list_sql {
    ($order:literal) => {
        concat!(
            "SELECT ",
            session_columns!(),
            ", COALESCE((SELECT MAX(m.timestamp) FROM {messages} AS m WHERE m.session_id = s.id), s.started_at) \
             AS last_active, \
             (SELECT m.id FROM {messages} AS m WHERE m.session_id = s.id AND m.role = 'user' \
             AND m.content IS NOT NULL ORDER BY m.timestamp, m.id LIMIT 1) AS first_id \
             FROM {sessions} AS s \
             WHERE (?1 = '[]' OR s.source IN (SELECT value FROM json_each(?1))) \
             AND s.source NOT IN (SELECT value FROM json_each(?5)) \
             AND (?2 OR (s.archived = 0 \
             AND CASE WHEN json_valid(s.model_config) \
             THEN json_extract(s.model_config, '$._delegate_from') END IS NULL \
             AND NOT (COALESCE(s.end_reason, '') = 'compression' AND EXISTS (\
             SELECT 1 FROM {sessions} AS child WHERE child.parent_session_id = s.id)))) \
             ORDER BY ",
            $order,
            " DESC, s.id DESC LIMIT ?3 OFFSET ?4"
        )
    };
}

impl Store {
    /// A page of sessions.
    pub async fn list_sessions(
        &self,
        query: &SessionQuery,
    ) -> Result<Vec<SessionSummary>, StoreError> {
        let sql = match query.order {
            SessionOrder::Started => list_sql!("s.started_at"),
            SessionOrder::Active => list_sql!("last_active"),
        };
        let rows = sqlx::query(self.sql(sql))
            .bind(serde_json::json!(query.sources).to_string())
            .bind(query.listing == SessionListing::All)
            .bind(query.limit)
            .bind(query.offset)
            .bind(serde_json::json!(query.excluded_sources).to_string())
            .fetch_all(self.readers())
            .await
            .map_err(|error| self.error(error))?;
        let mut summaries = Vec::with_capacity(rows.len());
        for found in &rows {
            summaries.push(
                self.summary(found)
                    .await
                    .map_err(|error| self.error(error))?,
            );
        }
        Ok(summaries)
    }

    async fn summary(&self, found: &SqliteRow) -> Result<SessionSummary, sqlx::Error> {
        let preview = match row::optional_integer(found, "first_id")? {
            Some(id) => self.preview(id).await?,
            None => String::new(),
        };
        Ok(SessionSummary {
            session: Session::read(found)?,
            preview,
            last_active: row::real(found, "last_active")?.unwrap_or_default(),
        })
    }

    /// The beginning of a message. Text may be long, so only its beginning is read; the text among parts can be
    /// anywhere.
    async fn preview(&self, id: i64) -> Result<String, sqlx::Error> {
        let found = sqlx::query(
            "SELECT substr(CAST(content AS BLOB), 1, 600) AS beginning FROM messages WHERE id = ?1",
        )
        .bind(id)
        .fetch_one(self.readers())
        .await?;
        let beginning = row::required_text(&found, "beginning")?;
        let text = if is_structured(&beginning) {
            let found = sqlx::query("SELECT content FROM messages WHERE id = ?1")
                .bind(id)
                .fetch_one(self.readers())
                .await?;
            row::text(&found, "content")?
                .map(|stored| Content::decode(stored).text().into_owned())
                .unwrap_or_default()
        } else {
            beginning
        };
        Ok(one_line(&text))
    }

    /// How many sessions there are, of these sources or of all.
    pub async fn count_sessions(&self, sources: &[String]) -> Result<i64, StoreError> {
        const SQL: &str = "SELECT COUNT(*) FROM {sessions} AS s \
             WHERE ?1 = '[]' OR s.source IN (SELECT value FROM json_each(?1))";
        sqlx::query_scalar(self.sql(SQL))
            .bind(serde_json::json!(sources).to_string())
            .fetch_one(self.readers())
            .await
            .map_err(|error| self.error(error))
    }
}

fn one_line(text: &str) -> String {
    let words: Vec<_> = text.split_whitespace().take(PREVIEW_LENGTH).collect();
    let line = words.join(" ");
    match line.char_indices().nth(PREVIEW_LENGTH) {
        Some((end, _)) => format!("{}...", line[..end].trim_end()),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn previews_are_one_short_line() {
        assert_eq!(one_line(" a\n\tb  c "), "a b c");
        assert_eq!(
            one_line(&"字".repeat(80)),
            format!("{}...", "字".repeat(60))
        );
        assert_eq!(one_line(""), "");
    }
}
